// Addition of two arrays of doubles into a third: add A.npy B.npy N.
#include "peer.h"
static long n;
static double *a, *b, *c;

static double once(double *checksum) {
  double start = now();
#pragma omp parallel for simd schedule(static)
  for (long i = 0; i < n; i++) c[i] = a[i] + b[i];
  double seconds = now() - start;
  for (long i = 0; i < n; i++) *checksum += c[i];
  return seconds;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  n = atol(argv[3]);
  a = read_npy(argv[1], n * sizeof(double));
  b = read_npy(argv[2], n * sizeof(double));
  c = huge_alloc(n * sizeof(double));
  return serve(once);
}
