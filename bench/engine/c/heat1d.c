// 1-D heat with fixed ends: heat1d INPUT.npy N STEPS, compiled with -DT=float or -DT=double.
#include "peer.h"
static long n, steps;
static T *input, *a, *b;

static double once(double *checksum) {
  memcpy(a, input, n * sizeof(T));
  double start = now();
  for (long s = 0; s < steps; s++) {
    b[0] = a[0];
    b[n - 1] = a[n - 1];
#pragma omp parallel for simd schedule(static)
    for (long i = 1; i < n - 1; i++) b[i] = a[i] + (T)0.25 * (a[i + 1] - 2 * a[i] + a[i - 1]);
    T *t = a; a = b; b = t;
  }
  double seconds = now() - start;
  for (long i = 0; i < n; i++) *checksum += a[i];
  return seconds;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  n = atol(argv[2]); steps = atol(argv[3]);
  input = read_npy(argv[1], n * sizeof(T));
  a = huge_alloc(n * sizeof(T)); b = huge_alloc(n * sizeof(T));
  return serve(once);
}
