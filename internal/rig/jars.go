package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// mavenTimeout bounds the download of some 45 MB.
const mavenTimeout = 5 * time.Minute

const pomTemplate = `<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>ax</groupId>
  <artifactId>kafka-rig</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>%s</version>
    </dependency>
    <dependency>
      <groupId>%s</groupId>
      <artifactId>%s</artifactId>
      <version>%s</version>
    </dependency>
  </dependencies>
</project>
`

// logging is what makes a version of Kafka write its log. Without it a broker
// that cannot bind its port exits without a word.
type logging struct {
	group, artifact, version string
	file, text               string
	option                   string // the JVM option that names the file follows it
}

// loggingOf knows that Kafka moved from log4j 1 to log4j 2 in version 4.
func loggingOf(kafkaVersion string) logging {
	if strings.HasPrefix(kafkaVersion, "3.") {
		return logging{
			group: "org.slf4j", artifact: "slf4j-reload4j", version: "1.7.36",
			file: "log4j.properties",
			text: `log4j.rootLogger=WARN, OUT
log4j.appender.OUT=org.apache.log4j.ConsoleAppender
log4j.appender.OUT.layout=org.apache.log4j.PatternLayout
log4j.appender.OUT.layout.ConversionPattern=%d{HH:mm:ss.SSS} %p %c{1}: %m%n
`,
			option: "-Dlog4j.configuration=file:",
		}
	}
	return logging{
		group: "org.apache.logging.log4j", artifact: "log4j-slf4j-impl", version: "2.25.5",
		file: "log4j2.yaml",
		text: `Configuration:
  Appenders:
    Console:
      name: OUT
      PatternLayout: {pattern: "%d{HH:mm:ss.SSS} %p %c{1}: %m%n"}
  Loggers:
    Root:
      level: "${env:AX_RIG_LOG:-WARN}"
      AppenderRef: {ref: OUT}
`,
		option: "-Dlog4j2.configurationFile=",
	}
}

// jarSet is a directory in the user's cache with all that a JVM needs to run one
// version of Kafka.
type jarSet struct {
	dir string
	log logging
	pom string
}

// jarsOf returns the place of a version's jars, which may not be there yet. The
// name depends on all that decides about the content.
func jarsOf(cache, kafkaVersion string) jarSet {
	l := loggingOf(kafkaVersion)
	pom := fmt.Sprintf(pomTemplate, kafkaVersion, l.group, l.artifact, l.version)
	sum := sha256.Sum256([]byte(pom + l.text))
	return jarSet{
		dir: filepath.Join(cache, "ax-kafka", fmt.Sprintf("%s-%x", kafkaVersion, sum[:6])),
		log: l,
		pom: pom,
	}
}

// complete reports whether the jars are there. The directory appears in one
// step when it is whole.
func (j jarSet) complete() bool {
	_, err := os.Stat(j.dir)
	return err == nil
}

// fetch has Maven download the jars unless they are there. Rigs that run at the
// same time wait for each other.
func (j jarSet) fetch(ctx context.Context, g *guard) error {
	ctx, cancel := context.WithTimeoutCause(ctx, mavenTimeout,
		fmt.Errorf("not done within %s", mavenTimeout))
	defer cancel()
	base := filepath.Dir(j.dir)
	if err := os.MkdirAll(base, 0o755); err != nil {
		return fmt.Errorf("make jar cache: %w", err)
	}
	unlock, err := lockFile(ctx, j.dir+".lock")
	if err != nil {
		return fmt.Errorf("lock jar cache: %w", err)
	}
	defer unlock()
	if j.complete() {
		return nil
	}
	// Under the lock nobody else fills a directory for this version, so what
	// is there with this prefix is left from a rig that was killed.
	prefix := filepath.Base(j.dir) + ".tmp-"
	stale, _ := filepath.Glob(filepath.Join(base, prefix+"*"))
	for _, dir := range stale {
		os.RemoveAll(dir)
	}
	tmp, err := os.MkdirTemp(base, prefix)
	if err != nil {
		return fmt.Errorf("make jar cache: %w", err)
	}
	defer os.RemoveAll(tmp)
	err = errors.Join(
		os.WriteFile(filepath.Join(tmp, "pom.xml"), []byte(j.pom), 0o644),
		os.WriteFile(filepath.Join(tmp, j.log.file), []byte(j.log.text), 0o644),
		os.Chmod(tmp, 0o755))
	if err != nil {
		return fmt.Errorf("fill jar cache: %w", err)
	}
	mvn := exec.Command("mvn", "-q", "-B", "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory=libs")
	mvn.Dir = tmp
	if _, err := runTool(ctx, mvn, g); err != nil {
		return fmt.Errorf("download jars with mvn: %w", err)
	}
	if err := os.Rename(tmp, j.dir); err != nil {
		return fmt.Errorf("fill jar cache: %w", err)
	}
	return nil
}

// classPath lists each jar in a fixed order, because a class archive is only
// used with the very class path that it was made with.
func (j jarSet) classPath() (string, error) {
	jars, err := filepath.Glob(filepath.Join(j.dir, "libs", "*.jar"))
	if err != nil {
		return "", err
	}
	if len(jars) == 0 {
		return "", fmt.Errorf("no jars in %s; remove that directory to download them again", j.dir)
	}
	slices.Sort(jars)
	return strings.Join(jars, string(os.PathListSeparator)), nil
}

// lockFile takes an exclusive lock, which the kernel drops if this process dies.
// It polls, since a blocking call could not be given up.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("%s is held by another rig: %w", path, context.Cause(ctx))
		}
	}
}
