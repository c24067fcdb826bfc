// Command soak runs a whole domain under faults and judges what came of it:
// workers, movers and producers are processes of their own (this binary, run
// again), on a real Kafka that AX_KAFKA names. The faults are a script that
// follows from the seed alone. Everybody writes facts (package checker); at
// the end the faults stop, everything is healed, and once nothing waits any
// more the checker decides which promises held.
//
//	make soak ARGS="--for 2m --seed 7"
//
// Its last line is "N passed, N failed"; the exit code is 1 when a promise
// failed, and 2 when nothing could be judged. docs/soak.md tells more.
//
// Where to start reading: run.go is the whole course of events; script.go makes
// the faults and faults.go carries them out, on the roles through process.go
// and on the brokers through control.go; role.go is what the processes do;
// watch.go and end.go collect the facts that only Kafka knows.
package main
