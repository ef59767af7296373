// 2-D heat with fixed borders on the ranks of MPI, in blocks of rows: heat2d INPUT.npy N STEPS COUNT, compiled with
// -DT=float or -DT=double. The rows inside are computed while those at the edges travel.
#include "rank.h"
static long n, steps, first, last, m;
static T *input, *a, *b;

static void row(long i) {
  const T *restrict up = a + (i - 1) * n, *restrict at = a + i * n, *restrict down = a + (i + 1) * n;
  T *restrict out = b + i * n;
  for (long j = 1; j < n - 1; j++)
    out[j] = at[j] + (T)0.2 * (up[j] + down[j] + at[j - 1] + at[j + 1] - 4 * at[j]);
}

static double once(double *checksum) {
  memcpy(a + n, input, m * n * sizeof(T));
  memcpy(b + n, input, m * n * sizeof(T));
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  int before = rank ? rank - 1 : MPI_PROC_NULL, after = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
  int bytes = n * sizeof(T);
  for (long s = 0; s < steps; s++) {
    MPI_Request r[4];
    MPI_Irecv(a, bytes, MPI_BYTE, before, 0, MPI_COMM_WORLD, r);
    MPI_Irecv(a + (m + 1) * n, bytes, MPI_BYTE, after, 1, MPI_COMM_WORLD, r + 1);
    MPI_Isend(a + n, bytes, MPI_BYTE, before, 1, MPI_COMM_WORLD, r + 2);
    MPI_Isend(a + m * n, bytes, MPI_BYTE, after, 0, MPI_COMM_WORLD, r + 3);
    for (long i = 2; i < m; i++) row(i);
    MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
    if (rank) row(1);
    if (rank < size - 1) row(m);
    T *t = a; a = b; b = t;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  double seconds = MPI_Wtime() - start;
  for (long i = n; i < (m + 1) * n; i++) *checksum += a[i];
  return seconds;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  n = atol(argv[2]); steps = atol(argv[3]);
  first = n * rank / size; last = n * (rank + 1) / size; m = last - first;
  input = read_rows(argv[1], first, last, n * sizeof(T));
  a = calloc((m + 2) * n, sizeof(T)); b = calloc((m + 2) * n, sizeof(T));
  report(once, atol(argv[4]));
  MPI_Finalize();
}
