// Game of Life on a torus, one byte per cell: life INPUT.npy N STEPS.
#include "peer.h"
typedef unsigned char u8;
static long n, steps;
static u8 *input, *a, *b;

static void row(const u8 *up, const u8 *at, const u8 *down, u8 *out) {
  u8 sum[n + 2];
#pragma omp simd
  for (long j = 0; j < n; j++) sum[j + 1] = up[j] + at[j] + down[j];
  sum[0] = sum[n];
  sum[n + 1] = sum[1];
#pragma omp simd
  for (long j = 0; j < n; j++) {
    u8 k = sum[j] + sum[j + 1] + sum[j + 2];
    out[j] = (k == 3) | (at[j] & (k == 4));
  }
}

static double once(double *checksum) {
  memcpy(a, input, n * n);
  double start = now();
  for (long s = 0; s < steps; s++) {
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) row(a + (i + n - 1) % n * n, a + i * n, a + (i + 1) % n * n, b + i * n);
    u8 *t = a; a = b; b = t;
  }
  double seconds = now() - start;
  for (long i = 0; i < n * n; i++) *checksum += a[i];
  return seconds;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  n = atol(argv[2]); steps = atol(argv[3]);
  input = read_npy(argv[1], n * n);
  a = huge_alloc(n * n); b = huge_alloc(n * n);
  return serve(once);
}
