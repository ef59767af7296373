// A shared-memory window of MPI-3 in the place of messages, between ranks of one machine: windows [COUNT]. For all-gather and
// all-reduce of some sizes, mean and least microseconds of COUNT calls of the slowest rank, from private memory to private
// memory, compared with MPI's own calls.
#include "rank.h"

static MPI_Win window;
static float **parts;  // the window's part of each rank

static void sync_all(void) {
  MPI_Win_sync(window);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_sync(window);
}

// Each rank puts its part there; all take all of it.
static void gather(const float *x, float *y, long n) {
  long part = n / size;
  memcpy(parts[rank], x, part * sizeof(float));
  sync_all();
  for (int r = 0; r < size; r++) memcpy(y + r * part, parts[r], part * sizeof(float));
  sync_all();
}

// Each rank puts all there, adds up its share of all, and puts it in its place; all take all shares.
static void reduce(const float *x, float *y, long n) {
  long part = n / size, first = rank * part;
  memcpy(parts[rank], x, n * sizeof(float));
  sync_all();
  float *sum = parts[rank] + first;
  for (int r = 0; r < size; r++)
    if (r != rank)
      for (long i = 0; i < part; i++) sum[i] += parts[r][first + i];
  sync_all();
  for (int r = 0; r < size; r++) memcpy(y + r * part, parts[r] + r * part, part * sizeof(float));
  sync_all();
}

static void mpi_gather(const float *x, float *y, long n) {
  MPI_Allgather(x, n / size, MPI_FLOAT, y, n / size, MPI_FLOAT, MPI_COMM_WORLD);
}

static void mpi_reduce(const float *x, float *y, long n) {
  MPI_Allreduce(x, y, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void measure(const char *name, void (*call)(const float *, float *, long), const float *x, float *y, long n, long count) {
  double least = 1e9, sum = 0;
  for (long i = -2; i < count; i++) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    call(x, y, n);
    double took = MPI_Wtime() - start, slowest;
    MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (i >= 0 && slowest < least) least = slowest;
    if (i >= 0) sum += slowest;
  }
  if (rank == 0) printf("%-18s %9ld bytes  mean %9.1f us  least %9.1f us\n", name, n * 4, sum / count * 1e6, least * 1e6);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long count = argc > 1 ? atol(argv[1]) : 100, largest = 16 << 20;
  float *own, *x = calloc(largest, 1), *y = calloc(largest, 1);
  MPI_Win_allocate_shared(largest, sizeof(float), MPI_INFO_NULL, MPI_COMM_WORLD, &own, &window);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
  parts = malloc(size * sizeof *parts);
  for (int r = 0; r < size; r++) {
    MPI_Aint bytes;
    int unit;
    MPI_Win_shared_query(window, r, &bytes, &unit, &parts[r]);
  }
  memset(own, 0, largest);
  for (long bytes = 1 << 20; bytes <= largest; bytes <<= 2) {
    measure("window all_gather", gather, x, y, bytes / 4, count);
    measure("MPI all_gather", mpi_gather, x, y, bytes / 4, count);
    measure("window all_reduce", reduce, x, y, bytes / 4, count);
    measure("MPI all_reduce", mpi_reduce, x, y, bytes / 4, count);
  }
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
  MPI_Finalize();
}
