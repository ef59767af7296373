// What the hand-written programs share: one rank's block of a .npy file, time, and the line of JSON at the end.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

// Rows `first` to `last` of `bytes` bytes each, behind the header.
static void *read_rows(const char *path, long first, long last, size_t bytes) {
  FILE *file = fopen(path, "rb");
  unsigned char head[10];
  if (!file || fread(head, 1, 10, file) != 10) { fprintf(stderr, "cannot read %s\n", path); MPI_Abort(MPI_COMM_WORLD, 1); }
  size_t count = (last - first) * bytes;
  char *out = malloc(count);
  fseek(file, 10 + head[8] + 256 * head[9] + first * (long)bytes, SEEK_SET);
  if (fread(out, 1, count, file) != count) { fprintf(stderr, "%s is short\n", path); MPI_Abort(MPI_COMM_WORLD, 1); }
  fclose(file);
  return out;
}

// The mean of `count` calls after one that warms up; `checksum` is that of this rank.
__attribute__((unused)) static void report(double (*once)(double *checksum), long count) {
  double mine = 0, seconds = 0, total = 0;
  once(&mine);
  for (long i = 0; i < count; i++) { mine = 0; seconds += once(&mine); }
  MPI_Reduce(&mine, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("{\"seconds\": %.9f, \"checksum\": %.17g}\n", seconds / count, total);
}
