package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// A port that was free can be taken before the broker binds it.
	startAttempts = 3
	// The first cluster of a Java version leaves a class archive, once, for
	// which one of its nodes has to end by itself.
	archiveTimeout = 30 * time.Second
	tailLines      = 30
)

// javaProvider runs nodes as Java processes of this machine.
func javaProvider() provider {
	return provider{name: providerJava, usable: javaUsable, start: startJava}
}

func javaUsable(ctx context.Context, cfg config) error {
	if _, _, err := findJava(ctx); err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return fmt.Errorf("find the user's cache directory: %w", err)
	}
	if _, err := exec.LookPath("mvn"); err != nil && !jarsOf(cache, cfg.kafkaVersion).complete() {
		return errors.New("no mvn in PATH to download Kafka with")
	}
	return nil
}

func startJava(ctx context.Context, cfg config, g *guard) (cluster, error) {
	java, version, err := findJava(ctx)
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find the user's cache directory: %w", err)
	}
	jars := jarsOf(cache, cfg.kafkaVersion)
	if err := jars.fetch(ctx, g); err != nil {
		return nil, err
	}
	j, err := newJVM(java, version, jars)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		c, err := startJavaCluster(ctx, cfg, j, g)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, errPortTaken) || attempt == startAttempts || ctx.Err() != nil {
			return nil, err
		}
	}
}

// javaCluster is one or three nodes and the directory with all their files.
type javaCluster struct {
	jvm   *jvm
	work  *workdir
	sec   *security
	nodes []*node
	ready bool // has been usable

	control *control // nil until ready
}

func startJavaCluster(ctx context.Context, cfg config, j *jvm, g *guard) (_ *javaCluster, err error) {
	work, err := newWorkdir(os.TempDir())
	if err != nil {
		return nil, err
	}
	g.addDir(work.path)
	c := &javaCluster{jvm: j, work: work}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	if c.sec, err = newSecurity(work.path); err != nil {
		return nil, err
	}
	perNode := 3
	if cfg.proxy {
		perNode = 5
	}
	ports, err := reservePorts(perNode * cfg.nodes)
	if err != nil {
		return nil, err
	}
	defer ports.release()
	if err := c.layOut(cfg, ports.ports); err != nil {
		return nil, err
	}
	if err := formatNodes(ctx, j, c.nodes, c.sec, g); err != nil {
		return nil, err
	}
	ports.release()
	for _, n := range c.nodes {
		if n.proxyPort != 0 {
			if n.proxy, err = newProxy(n.address(), n.direct()); err != nil {
				return nil, errors.Join(err, errPortTaken)
			}
		}
		if err := n.start(j, g); err != nil {
			return nil, err
		}
	}
	secure, err := c.secureOptions()
	if err != nil {
		return nil, err
	}
	if err := waitReady(ctx, cfg.timeout, readiness{addrs: c.addresses((*node).address), alive: c.alive, secure: secure}); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, c.logTails())
	}
	if c.control, err = startControl(c, g); err != nil {
		return nil, err
	}
	c.ready = true
	return c, nil
}

// layOut creates the nodes and writes their configuration.
func (c *javaCluster) layOut(cfg config, ports []int) error {
	for i := range cfg.nodes {
		n := &node{
			id:             i + 1,
			dir:            filepath.Join(c.work.path, fmt.Sprint(i+1)),
			plainPort:      ports[3*i],
			securePort:     ports[3*i+1],
			controllerPort: ports[3*i+2],
		}
		if cfg.proxy {
			n.proxyPort, n.internalPort = ports[3*cfg.nodes+2*i], ports[3*cfg.nodes+2*i+1]
		}
		c.nodes = append(c.nodes, n)
		if n.id != cfg.ownDisk {
			continue
		}
		n.ownDisk = true
		if err := os.MkdirAll(n.dataDir(), 0o755); err != nil {
			return fmt.Errorf("disk of node %d: %w", n.id, err)
		}
		if err := mountDisk(n.dataDir()); err != nil {
			return fmt.Errorf("disk of node %d: %w", n.id, err)
		}
	}
	if !c.jvm.hasArchive() {
		c.nodes[0].archive = filepath.Join(c.work.path, "app.jsa")
	}
	for _, n := range c.nodes {
		if err := writeProperties(n.propertiesFile(), nodeProperties(n, c.nodes, c.sec, cfg)); err != nil {
			return fmt.Errorf("configure node %d: %w", n.id, err)
		}
	}
	return nil
}

func (c *javaCluster) addresses(of func(*node) string) []string {
	var addrs []string
	for _, n := range c.nodes {
		addrs = append(addrs, of(n))
	}
	return addrs
}

// secureOptions returns a client's options for the SECURE listeners.
func (c *javaCluster) secureOptions() ([]kgo.Opt, error) {
	return secureClient(c.addresses((*node).secureAddress), c.sec.caFile, scramLogin(appUser, c.sec.appPassword))
}

func (c *javaCluster) endpoints() endpoints {
	e := endpoints{
		bootstrap: strings.Join(c.addresses((*node).address), ","),
		secure: &secureEndpoint{
			bootstrap:     strings.Join(c.addresses((*node).secureAddress), ","),
			caFile:        c.sec.caFile,
			password:      c.sec.appPassword,
			adminPassword: c.sec.adminPassword,
		},
	}
	if c.control != nil {
		e.control = c.control.path()
	}
	for _, n := range c.nodes {
		e.pids = append(e.pids, n.process().pid())
	}
	return e
}

var errPortTaken = errors.New("a port was taken by another program")

// alive returns an error if a node has ended or is bound to.
func (c *javaCluster) alive() error {
	for _, n := range c.nodes {
		// The log says so at once; the process takes ten seconds to end.
		if strings.Contains(n.logTail(200), "Address already in use") {
			return fmt.Errorf("node %d: %w", n.id, errPortTaken)
		}
		if n.exited() {
			return fmt.Errorf("node %d has ended: %s", n.id, n.process().cmd.ProcessState)
		}
	}
	return nil
}

func (c *javaCluster) logTails() string {
	var b strings.Builder
	for _, n := range c.nodes {
		fmt.Fprintf(&b, "--- last lines of node %d\n%s\n", n.id, n.logTail(tailLines))
	}
	return b.String()
}

// wait holds out as long as one node runs, or was ended by order and may be
// started again: a fault test may kill some of them.
func (c *javaCluster) wait(ctx context.Context) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for slices.ContainsFunc(c.nodes, func(n *node) bool { return !n.exited() || n.process().killed.Load() }) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	return fmt.Errorf("every node has ended by itself\n%s", c.logTails())
}

// stop kills the nodes, since nothing of them is kept and an orderly shutdown of
// a whole quorum hangs for lack of a majority. It reports nodes that had ended
// before with an error of their own; one that an order has ended is no news.
func (c *javaCluster) stop() error {
	var errs []error
	if c.control != nil {
		c.control.close() // from here on nobody starts a node again
	}
	for _, n := range c.nodes {
		if n.proxy != nil {
			n.proxy.close()
		}
	}
	for _, n := range c.nodes {
		// Before it was ready, the error of the start says all this.
		if c.ready && n.exited() && !n.process().killed.Load() && n.process().cmd.ProcessState.ExitCode() > 0 {
			errs = append(errs, fmt.Errorf("node %d had ended before: %s\n%s",
				n.id, n.process().cmd.ProcessState, n.logTail(tailLines)))
		}
	}
	if c.ready && len(errs) == 0 {
		errs = append(errs, c.leaveArchive())
	}
	for _, n := range c.nodes {
		if n.process() != nil {
			n.process().signal(syscall.SIGKILL) // all, before waiting for any
		}
	}
	for _, n := range c.nodes {
		if n.process() != nil {
			errs = append(errs, n.process().kill())
		}
	}
	return errors.Join(append(errs, c.work.remove())...)
}

// leaveArchive ends the node whose JVM is to leave a class archive, while the
// others are there to let it go, and keeps that file.
func (c *javaCluster) leaveArchive() error {
	for _, n := range c.nodes {
		if n.archive == "" || n.process() == nil || n.exited() {
			continue
		}
		n.process().signal(syscall.SIGTERM)
		// 143 is the JVM's way to say that SIGTERM made it shut down in order.
		// Any other end may have left half a file; the next cluster tries again.
		if n.process().waitFor(archiveTimeout) && n.process().cmd.ProcessState.ExitCode() == 128+int(syscall.SIGTERM) {
			return c.jvm.saveArchive(n.archive)
		}
	}
	return nil
}
