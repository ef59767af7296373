//! Divisors.

/// The greatest common divisor.
pub fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The prime factors of `n`, smallest first; none for numbers below 2.
pub fn prime_factors(mut n: i64) -> Vec<i64> {
    let (mut out, mut p) = (vec![], 2);
    while p * p <= n {
        while n % p == 0 {
            out.push(p);
            n /= p;
        }
        p += 1;
    }
    if n > 1 {
        out.push(n);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_multiply_to_the_number() {
        for n in 1..200 {
            assert_eq!(prime_factors(n).iter().product::<i64>(), n);
        }
        assert_eq!(prime_factors(360), [2, 2, 2, 3, 3, 5]);
        assert_eq!(gcd(12, 18), 6);
        assert_eq!(gcd(0, 5), 5);
    }
}
