// 2-D heat with fixed borders: heat2d INPUT.npy N STEPS, compiled with -DT=float or -DT=double.
#include "peer.h"
static long n, steps;
static T *input, *a, *b;

static double once(double *checksum) {
  memcpy(a, input, n * n * sizeof(T));
  memcpy(b, input, n * n * sizeof(T));
  double start = now();
  for (long s = 0; s < steps; s++) {
#pragma omp parallel for schedule(static)
    for (long i = 1; i < n - 1; i++) {
      const T *up = a + (i - 1) * n, *at = a + i * n, *down = a + (i + 1) * n;
      T *out = b + i * n;
#pragma omp simd
      for (long j = 1; j < n - 1; j++)
        out[j] = at[j] + (T)0.2 * (up[j] + down[j] + at[j - 1] + at[j + 1] - 4 * at[j]);
    }
    T *t = a; a = b; b = t;
  }
  double seconds = now() - start;
  for (long i = 0; i < n * n; i++) *checksum += a[i];
  return seconds;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  n = atol(argv[2]); steps = atol(argv[3]);
  input = read_npy(argv[1], n * n * sizeof(T));
  a = huge_alloc(n * n * sizeof(T)); b = huge_alloc(n * n * sizeof(T));
  return serve(once);
}
