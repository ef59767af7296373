// The machine's copy bandwidth, huge pages, all threads: copy BYTES. Copies that fit the caches find their data there, as
// a program that runs again and again does.
#include "peer.h"
static long n;
static float *a, *b;

static double once(double *checksum) {
  long count = 1 + 200000000 / (n * sizeof(float));
  double start = now();
  for (long k = 0; k < count; k++) {
#pragma omp parallel for simd schedule(static)
    for (long i = 0; i < n; i++) b[i] = a[i];
    __asm__ volatile("" ::: "memory");
  }
  double seconds = (now() - start) / count;
  *checksum = 2.0 * n * sizeof(float) / seconds * 1e-9;
  return seconds;
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  n = atol(argv[1]) / sizeof(float);
  a = huge_alloc(n * sizeof(float)); b = huge_alloc(n * sizeof(float));
  return serve(once);
}
