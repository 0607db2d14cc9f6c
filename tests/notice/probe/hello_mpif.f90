! 4 ranks; Fortran's own entry points (mpi_send_, mpi_waitall_, ...)
program hello
  implicit none
  include 'mpif.h'
  integer :: ierror, rank, size, total, requests(2), statuses(MPI_STATUS_SIZE, 2), row
  double precision :: out(10), in(10)
  call MPI_INIT(ierror)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierror)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, size, ierror)
  out = rank
  if (rank == 0) call MPI_SEND(out, 10, MPI_DOUBLE_PRECISION, 1, 3, MPI_COMM_WORLD, ierror)
  if (rank == 1) call MPI_RECV(in, 10, MPI_DOUBLE_PRECISION, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
  call MPI_IRECV(in, 5, MPI_DOUBLE_PRECISION, mod(rank + size - 1, size), 4, MPI_COMM_WORLD, requests(1), ierror)
  call MPI_ISEND(out, 5, MPI_DOUBLE_PRECISION, mod(rank + 1, size), 4, MPI_COMM_WORLD, requests(2), ierror)
  call MPI_WAITALL(2, requests, statuses, ierror)
  call MPI_COMM_SPLIT(MPI_COMM_WORLD, mod(rank, 2), rank, row, ierror)
  call MPI_ALLREDUCE(rank, total, 1, MPI_INTEGER, MPI_SUM, row, ierror)
  call MPI_ALLREDUCE(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  if (rank == 0) print *, 'total', total, in(1)
  call MPI_FINALIZE(ierror)
  stop 5
end program
