package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/kafka"
)

const (
	// The image family that the testcontainers module knows how to start.
	dockerImage = "confluentinc/confluent-local:7.5.0"

	dockerProbeTimeout = 3 * time.Second
	dockerPullTimeout  = 5 * time.Minute
	dockerStopTimeout  = 30 * time.Second
)

// dockerProvider runs one node in a container.
func dockerProvider() provider {
	return provider{name: providerDocker, usable: dockerUsable, start: startDocker}
}

func dockerUsable(ctx context.Context, cfg config) error {
	switch {
	case cfg.nodes != 1:
		return fmt.Errorf("can run 1 node, not %d", cfg.nodes)
	case cfg.acl:
		return errors.New("does not support -acl")
	case cfg.ownDisk > 0:
		return errors.New("does not support -own-disk")
	case cfg.proxy:
		return errors.New("does not support -proxy")
	case cfg.versionAsked:
		return errors.New("does not support -kafka-version")
	}
	ctx, cancel := context.WithTimeout(ctx, dockerProbeTimeout)
	defer cancel()
	result := make(chan error, 1)
	// The one goroutine of this program that nobody may wait for: finding the
	// engine takes no context, and an address that swallows packets blocks it
	// for minutes. It holds nothing but that connection.
	go func() { result <- probeDocker(ctx) }()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("no answer from a Docker engine within %s", dockerProbeTimeout)
	}
}

// probeDocker asks the engine how it is. The library panics if it finds none.
func probeDocker(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("no Docker engine: %v", firstLine(fmt.Sprint(r)))
		}
	}()
	p, err := testcontainers.NewDockerProvider()
	if err != nil {
		return fmt.Errorf("no Docker engine: %s", firstLine(err.Error()))
	}
	if err := p.Health(ctx); err != nil { // closes p
		return fmt.Errorf("docker engine: %w", err)
	}
	return nil
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

type dockerCluster struct {
	container *kafka.KafkaContainer
	bootstrap string
}

// startDocker starts the container. If the rig is killed, the reaper container
// that testcontainers runs beside it removes it.
func startDocker(ctx context.Context, cfg config, _ *guard) (cluster, error) {
	run, cancel := context.WithTimeout(ctx, dockerPullTimeout)
	defer cancel()
	ctr, err := kafka.Run(run, dockerImage, testcontainers.WithEnv(containerEnv(cfg)))
	c := &dockerCluster{container: ctr}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("run container %s: %w", dockerImage, err), c.stop())
	}
	addrs, err := ctr.Brokers(run)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("find the container's address: %w", err), c.stop())
	}
	c.bootstrap = strings.Join(addrs, ",")
	err = waitReady(ctx, cfg.timeout, readiness{addrs: addrs, alive: func() error { return nil }})
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// containerEnv returns the broker properties in the form in which the image
// takes them: KAFKA_ and the name in capitals, with dots as underscores.
func containerEnv(cfg config) map[string]string {
	name := strings.NewReplacer(".", "_", "_", "__", "-", "___")
	env := map[string]string{}
	for _, m := range []map[string]string{sharedProperties(1), cfg.set} {
		for k, v := range m {
			env["KAFKA_"+strings.ToUpper(name.Replace(k))] = v
		}
	}
	return env
}

func (c *dockerCluster) endpoints() endpoints { return endpoints{bootstrap: c.bootstrap} }

func (c *dockerCluster) wait(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if st, err := c.container.State(ctx); err == nil && !st.Running {
			return fmt.Errorf("the Kafka container has ended by itself with exit code %d", st.ExitCode)
		}
	}
}

func (c *dockerCluster) stop() error {
	if c.container == nil {
		return nil
	}
	// Its own context: the caller's has ended in most cases.
	ctx, cancel := context.WithTimeout(context.Background(), dockerStopTimeout)
	defer cancel()
	if err := c.container.Terminate(ctx); err != nil {
		return fmt.Errorf("remove container: %w", err)
	}
	return nil
}
