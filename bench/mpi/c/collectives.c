// MPI's own collectives: collectives KIND INPUT.npy ELEMENTS COUNT; each rank has a row of ELEMENTS floats of the input.
// Prints the fastest of COUNT calls.
#include "rank.h"

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char *kind = argv[1];
  long n = atol(argv[3]), count = atol(argv[4]), part = n / size;
  float *x = read_rows(argv[2], rank, rank + 1, n * sizeof(float)), *y = calloc(n, sizeof(float));
  double seconds = 1e9, mine = 0, total = 0;
  long results = n;
  for (long i = -1; i < count; i++) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    if (!strcmp(kind, "all_reduce")) MPI_Allreduce(x, y, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (!strcmp(kind, "all_gather")) MPI_Allgather(x, part, MPI_FLOAT, y, part, MPI_FLOAT, MPI_COMM_WORLD);
    else if (!strcmp(kind, "reduce_scatter")) {
      MPI_Reduce_scatter_block(x, y, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      results = part;
    } else if (!strcmp(kind, "permute"))
      MPI_Sendrecv(x, n, MPI_FLOAT, (rank + 1) % size, 0, y, n, MPI_FLOAT, (rank + size - 1) % size, 0, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
    else MPI_Alltoall(x, part, MPI_FLOAT, y, part, MPI_FLOAT, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    double took = MPI_Wtime() - start;
    if (i >= 0 && took < seconds) seconds = took;
  }
  for (long i = 0; i < results; i++) mine += y[i];
  MPI_Reduce(&mine, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("{\"seconds\": %.9f, \"checksum\": %.17g}\n", seconds, total);
  MPI_Finalize();
}
