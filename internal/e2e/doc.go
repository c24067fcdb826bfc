// Package e2e holds the tests that only a real Kafka can answer: what a fake
// could get wrong, and what happens to tasks when processes are killed. They
// carry the build tag kafka and need the address of a cluster of three nodes in
// AX_KAFKA; the command of internal/rig starts one and sets it. Without it they
// fail: a missing broker is not a reason to skip. Those that do harm to brokers
// need AX_KAFKA_CONTROL as well, through which they kill and freeze them and fill
// the disk of one. They are not parallel, and so run before all others, one at a
// time.
//
// The test binary is worker and mover too: it starts itself again with a role
// in its environment, so that a role is a process that can be killed.
package e2e
