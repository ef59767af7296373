// 1-D heat with fixed ends on the ranks of MPI: heat1d INPUT.npy N STEPS COUNT, compiled with -DT=float or -DT=double.
// Each rank has a block and one element of each neighbor; the interior is computed while the edges are sent.
#include "rank.h"
static long n, steps, first, last, m;
static T *input, *a, *b;

static double once(double *checksum) {
  memcpy(a + 1, input, m * sizeof(T));
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  int before = rank ? rank - 1 : MPI_PROC_NULL, after = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
  long from = rank ? 1 : 2, to = rank < size - 1 ? m : m - 1;
  for (long s = 0; s < steps; s++) {
    MPI_Request r[4];
    MPI_Irecv(a, sizeof(T), MPI_BYTE, before, 0, MPI_COMM_WORLD, r);
    MPI_Irecv(a + m + 1, sizeof(T), MPI_BYTE, after, 1, MPI_COMM_WORLD, r + 1);
    MPI_Isend(a + 1, sizeof(T), MPI_BYTE, before, 1, MPI_COMM_WORLD, r + 2);
    MPI_Isend(a + m, sizeof(T), MPI_BYTE, after, 0, MPI_COMM_WORLD, r + 3);
    T *restrict out = b;
    const T *restrict x = a;
    for (long i = 2; i < m; i++) out[i] = x[i] + (T)0.25 * (x[i + 1] - 2 * x[i] + x[i - 1]);
    MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
    out[1] = from == 1 ? x[1] + (T)0.25 * (x[2] - 2 * x[1] + x[0]) : x[1];
    out[m] = to == m ? x[m] + (T)0.25 * (x[m + 1] - 2 * x[m] + x[m - 1]) : x[m];
    T *t = a; a = b; b = t;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  double seconds = MPI_Wtime() - start;
  for (long i = 1; i <= m; i++) *checksum += a[i];
  return seconds;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  n = atol(argv[2]); steps = atol(argv[3]);
  first = n * rank / size; last = n * (rank + 1) / size; m = last - first;
  input = read_rows(argv[1], first, last, sizeof(T));
  a = calloc(m + 2, sizeof(T)); b = calloc(m + 2, sizeof(T));
  report(once, atol(argv[4]));
  MPI_Finalize();
}
