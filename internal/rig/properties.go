package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// sharedProperties returns the settings that do not depend on addresses or
// files: those that a container takes as well.
func sharedProperties(nodes int) map[string]string {
	copies, inSync := "1", "1"
	if nodes >= 3 {
		copies, inSync = "3", "2"
	}
	p := map[string]string{
		// A misspelt topic must fail in a test, not come into being.
		"auto.create.topics.enable":               "false",
		"default.replication.factor":              copies,
		"min.insync.replicas":                     inSync,
		"transaction.state.log.min.isr":           inSync,
		"share.coordinator.state.topic.min.isr":   inSync,
		"group.initial.rebalance.delay.ms":        "0",
		"broker.heartbeat.interval.ms":            "200",
		"broker.session.timeout.ms":               "3000",
		"replica.lag.time.max.ms":                 "5000",
		"group.min.session.timeout.ms":            "500",
		"group.share.min.record.lock.duration.ms": "1000",
		"group.share.record.lock.duration.ms":     "2000",

		// Retention acts about a second after it falls due, not five minutes.
		"log.initial.task.delay.ms":       "500",
		"log.retention.check.interval.ms": "500",

		// Half the memory of a broker with its default cleaner buffer.
		"log.cleaner.dedupe.buffer.size": "4194304",
		"num.network.threads":            "2",
		"num.io.threads":                 "4",
		"background.threads":             "2",
	}
	for _, topic := range []string{"offsets.topic", "transaction.state.log", "share.coordinator.state.topic"} {
		p[topic+".replication.factor"] = copies
		p[topic+".num.partitions"] = "4"
	}
	// Consumer groups of KIP-848 and share groups: members join, leave and are
	// missed in less than a second or a few, not in 5 to 45.
	for _, kind := range []string{"group.consumer.", "group.share."} {
		p[kind+"min.heartbeat.interval.ms"] = "200"
		p[kind+"heartbeat.interval.ms"] = "200"
		p[kind+"min.session.timeout.ms"] = "1000"
		p[kind+"session.timeout.ms"] = "3000"
		p[kind+"assignment.interval.ms"] = "0"
	}
	// Under KIP-848 no client chooses these. They are what ax asks for in a
	// classic group, so that one test can judge both.
	p["group.consumer.heartbeat.interval.ms"] = "500"
	p["group.consumer.session.timeout.ms"] = "6000"
	return p
}

// nodeProperties returns the whole configuration of one node of a cluster.
func nodeProperties(n *node, all []*node, sec *security, cfg config) map[string]string {
	var voters []string
	for _, v := range all {
		voters = append(voters, fmt.Sprintf("%d@%s", v.id, local(v.controllerPort)))
	}
	secure := ",SECURE://" + n.secureAddress()
	listeners, advertised := "PLAINTEXT://"+n.direct()+secure, "PLAINTEXT://"+n.address()+secure
	protocols, internal := "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL", "PLAINTEXT"
	if n.proxyPort != 0 {
		own := ",INTERNAL://" + local(n.internalPort)
		listeners, advertised = listeners+own, advertised+own
		protocols, internal = protocols+",INTERNAL:PLAINTEXT", "INTERNAL"
	}

	p := sharedProperties(len(all))
	maps.Copy(p, map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        strconv.Itoa(n.id),
		"controller.quorum.voters":       strings.Join(voters, ","),
		"controller.listener.names":      "CONTROLLER",
		"listeners":                      listeners + ",CONTROLLER://" + local(n.controllerPort),
		"advertised.listeners":           advertised,
		"inter.broker.listener.name":     internal,
		"listener.security.protocol.map": protocols,
		"log.dirs":                       n.dataDir(),
		// Elsewhere, so that a full disk ends the broker by what it is to
		// tasks and not by what it is to the controller.
		"metadata.log.dir": n.metaDir(),
	})
	maps.Copy(p, sec.properties())
	if cfg.acl {
		p["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
		// ANONYMOUS is everybody on PLAINTEXT, the brokers themselves included.
		p["super.users"] = "User:ANONYMOUS;User:" + adminUser
	}
	maps.Copy(p, cfg.set) // last: -set may overrule anything
	return p
}

// Backslashes and line ends mean something to java.util.Properties.
var propertyEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)

// formatProperties renders a properties file, sorted so that two of them can be
// compared.
func formatProperties(p map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "%s=%s\n", k, propertyEscaper.Replace(p[k]))
	}
	return b.String()
}

func writeProperties(file string, p map[string]string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(formatProperties(p)), 0o600) // it holds passwords
}

func local(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
