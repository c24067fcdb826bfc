// Command rig gives tests a real Apache Kafka cluster.
//
//	rig [flags]                      start a cluster, print its address, run until a signal
//	rig [flags] -- COMMAND ARGS...   start a cluster, run COMMAND against it, stop the cluster
//
// In the first form the bootstrap address is the only line on standard output,
// written once the cluster can be used; SIGINT or SIGTERM ends the program with
// exit code 0. What else there is to know about the cluster goes to standard
// error as lines that a shell can evaluate.
//
// In the second form COMMAND gets the same facts as environment variables, the
// program's own input and output, and its signals. The program ends with the
// exit code of COMMAND, or 128 plus the number of the signal that ended it.
//
//	AX_KAFKA                 bootstrap addresses, without encryption or login
//	AX_KAFKA_SECURE          bootstrap addresses of the SASL_SSL listeners
//	AX_KAFKA_SECURE_CA       file with the certificate that signed theirs
//	AX_KAFKA_SECURE_USER     a user, and
//	AX_KAFKA_SECURE_PASSWORD its password, for SCRAM-SHA-512 and for PLAIN
//	AX_KAFKA_SECURE_ADMIN_USER, AX_KAFKA_SECURE_ADMIN_PASSWORD
//	                         the same of a user that -acl does not restrict
//	AX_KAFKA_PIDS            process ids of the brokers, in the order of their node ids,
//	                         as long as none was started again
//	AX_KAFKA_CONTROL         Unix socket that takes the orders below
//
// # Where the cluster comes from
//
// The first of these that can be used (-provider forces one):
//
//   - address: AX_KAFKA is set already. That cluster is used as it is, after a
//     ping; nothing is started, and the other variables are passed on unchanged.
//   - docker: one node in a container. It has no secure listener and no process
//     ids, so only AX_KAFKA is set. Asking for several nodes, for -acl, -own-disk or
//     a -kafka-version rules it out.
//   - java: one or three nodes as Java processes, from jars which Maven
//     downloads once into the user's cache directory. Everything is supported.
//
// # Orders
//
// A client of the control socket writes one order a line, and reads "ok", or
// "error: " and a reason, when it is carried out:
//
//	kill N             kill -9 node N
//	start N            start it again on its directory, and wait until the cluster counts it in
//	freeze N, thaw N   SIGSTOP, SIGCONT
//	fill N             leave node N's disk no room: the broker ends by itself, with an error
//	unfill N           give the room back
//	cut N [FROM]       nothing passes between clients and node N; connections stay open
//	delay N D [FROM]   what passes takes D longer, each way
//	heal N [FROM]      end that; without FROM, for everybody
//
// One order is carried out at a time for each node; nodes that can't start alone,
// since all of them were killed, are started through a connection each.
//
// fill and unfill need -own-disk N, which puts the node's data, but not its
// metadata, on a tmpfs. That takes root, on Linux. The size of the tmpfs becomes
// what is on it, so that filling it takes no time and no memory.
//
// The last three need -proxy: then AX_KAFKA names a proxy of each node, and the
// brokers talk to each other past them. FROM is the address that a client dials
// from, so that one client among several can be cut off: it takes one of
// 127.0.0.0/8 for itself. The encrypted listeners have no proxy.
//
// # How nothing is left behind
//
// Every process the rig starts leads its own process group, and the whole group
// is killed when its leader ends. On Linux the kernel also kills the leaders
// when the rig dies. A small second process, the guard, holds the reading end of
// a pipe: when the rig ends in whatever way, kill -9 included, the guard sees the
// pipe close, kills the groups that remain, unmounts a node's own disk and
// removes the data directory. If the guard is killed too, the next rig does that
// to the directory: it holds a file which only a live rig keeps locked. What a
// COMMAND moves into a process group or session of its own escapes all this.
//
// # Where to start reading
//
// main.go is the whole course of events; provider.go picks where the cluster
// comes from; java.go runs nodes (node.go) made from properties.go, format.go,
// secure.go and jars.go; ready.go decides when a cluster can be used;
// control.go, disk_linux.go and proxy.go do harm by order;
// process.go, guard.go and workdir.go are the ending described above.
package main
