package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

const (
	minJava     = 17 // Kafka 4 brokers do not run on less
	javaTimeout = 20 * time.Second
)

// jvm is a Java installation together with the jars to run.
type jvm struct {
	java      string // path of the program
	jars      jarSet
	classPath string
	archive   string // where the class archive of just these two is, or will be
}

// findJava returns the path of a new enough Java and the text with which it
// introduces itself.
func findJava(ctx context.Context) (path, version string, err error) {
	path = filepath.Join(os.Getenv("JAVA_HOME"), "bin", "java")
	if os.Getenv("JAVA_HOME") == "" {
		if path, err = exec.LookPath("java"); err != nil {
			return "", "", errors.New("no java in PATH")
		}
	}
	ctx, cancel := context.WithTimeout(ctx, javaTimeout)
	defer cancel()
	version, err = runTool(ctx, exec.Command(path, "-version"), nil)
	if err != nil {
		return "", "", fmt.Errorf("%s -version: %w", path, err)
	}
	major, err := javaMajor(version)
	if err != nil {
		return "", "", fmt.Errorf("%s -version: %w", path, err)
	}
	if major < minJava {
		return "", "", fmt.Errorf("%s is Java %d; %d or newer is needed", path, major, minJava)
	}
	return path, version, nil
}

// It may come after a line about JAVA_TOOL_OPTIONS. Old ones call themselves
// 1.8.
var javaVersionPattern = regexp.MustCompile(`version "(?:1\.)?([0-9]+)`)

func javaMajor(text string) (int, error) {
	m := javaVersionPattern.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("no version in %q", firstLine(text))
	}
	return strconv.Atoi(m[1])
}

// newJVM expects the jars to be complete. The class archive's name depends on
// the Java version, which would refuse the archive of another.
func newJVM(java, version string, jars jarSet) (*jvm, error) {
	cp, err := jars.classPath()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(version))
	return &jvm{
		java: java, jars: jars, classPath: cp,
		archive: filepath.Join(jars.dir, fmt.Sprintf("app-%x.jsa", sum[:6])),
	}, nil
}

func (j *jvm) hasArchive() bool {
	_, err := os.Stat(j.archive)
	return err == nil
}

// command returns a command that runs a main class. It starts twice as fast with
// the class archive; opts are further options of the JVM.
func (j *jvm) command(opts []string, class string, args ...string) *exec.Cmd {
	all := []string{
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		j.jars.log.option + filepath.Join(j.jars.dir, j.jars.log.file),
		"-cp", j.classPath,
	}
	if j.hasArchive() {
		all = append(all, "-XX:SharedArchiveFile="+j.archive, "-Xshare:auto")
	}
	all = append(append(all, opts...), class)
	return exec.Command(j.java, append(all, args...)...)
}

// saveArchive puts a class archive that a broker has left in its place, in one
// step, from a directory that may be on another file system.
func (j *jvm) saveArchive(from string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("save class archive: %w", err)
	}
	tmp := fmt.Sprintf("%s.%d", j.archive, os.Getpid())
	if err := os.WriteFile(tmp, b, 0o644); err != nil {
		return fmt.Errorf("save class archive: %w", errors.Join(err, os.Remove(tmp)))
	}
	if err := os.Rename(tmp, j.archive); err != nil {
		return fmt.Errorf("save class archive: %w", err)
	}
	return nil
}
