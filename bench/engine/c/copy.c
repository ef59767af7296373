// The machine's copy bandwidth, huge pages, all threads: copy MEGABYTES. The checksum is gigabytes read and written a second.
#include "peer.h"
static long n;
static float *a, *b;

static double once(double *checksum) {
  double start = now();
#pragma omp parallel for simd schedule(static)
  for (long i = 0; i < n; i++) b[i] = a[i];
  double seconds = now() - start;
  *checksum = 2.0 * n * sizeof(float) / seconds * 1e-9;
  return seconds;
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  n = atol(argv[1]) * (1 << 20) / sizeof(float);
  a = huge_alloc(n * sizeof(float)); b = huge_alloc(n * sizeof(float));
  return serve(once);
}
