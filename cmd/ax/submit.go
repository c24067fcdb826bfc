package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/producer"
)

func submitCommand() *cli.Command {
	return &cli.Command{
		Name: "submit", Usage: "submit one task and print its receipt", ArgsUsage: "KIND [PAYLOAD]",
		Description: "PAYLOAD is the task's bytes; - reads them from stdin. The receipt is printed once\n" +
			"a broker holds the task as safely as the domain asks." + flagsWin + `

Example:
   ax submit order.close '{"id": 7}' --after 30m --spec orders.yaml
   ax submit report.build --file report.json --lane low --header tenant=acme`,
		Flags: append(domainFlags(),
			&cli.StringFlag{Name: "file", Usage: "`FILE` that holds the payload; - for stdin", TakesFile: true},
			&cli.StringFlag{Name: "lane", Usage: "`LANE` instead of the kind's"},
			&cli.StringFlag{Name: "key", Usage: "`KEY` that chooses the partition, and the order in an ordered lane"},
			&cli.StringFlag{Name: "id", Usage: "`ID` for deduplication, instead of a new UUID"},
			&cli.DurationFlag{Name: "after", HideDefault: true, Usage: "due after this `TIME` from now, such as 90s or 24h"},
			&cli.StringFlag{Name: "at", Usage: "due at this `INSTANT`, RFC 3339, such as 2026-01-02T15:04:05Z"},
			&cli.DurationFlag{Name: "timeout", HideDefault: true, Usage: "longest `TIME` of one run; default the kind's"},
			&cli.IntFlag{Name: "attempts", HideDefault: true, Usage: "how many starts may fail, as a `NUMBER`; default the kind's"},
			&cli.StringFlag{Name: "expires", Usage: "not worth a start from this `INSTANT` on, RFC 3339, or a time after it is due, such as 1h"},
			&cli.StringSliceFlag{Name: "header", Usage: "`NAME=VALUE` that travels along; may be repeated"},
		),
		Action: submit,
	}
}

// receipt is what submit prints as JSON.
type receipt struct {
	ID        string    `json:"id"`
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Due       time.Time `json:"due"`
}

func submit(ctx context.Context, cmd *cli.Command) (err error) {
	task, err := taskOf(cmd, time.Now())
	if err != nil {
		return err
	}
	d, err := loadReachable(cmd)
	if err != nil {
		return err
	}
	if task.Payload, err = payload(cmd, d.MaxPayload); err != nil {
		return err
	}
	client, err := producer.New(d)
	if err != nil {
		return err
	}
	got, err := client.Submit(ctx, task)
	if err != nil {
		_ = client.Close(ctx) // the submit's error says more
		return err
	}
	if err := client.Close(ctx); err != nil {
		return err
	}
	out := receipt{ID: got.ID, Topic: got.Topic, Partition: got.Partition, Offset: got.Offset, Due: got.Due.UTC()}
	if done, err := printJSON(cmd, out); done {
		return err
	}
	printf(cmd, "%s is in %s/%d@%d, due %s\n", out.ID, out.Topic, out.Partition, out.Offset, out.Due.Format(time.RFC3339Nano))
	return nil
}

// taskOf returns the task that arguments and flags describe, without its
// payload.
func taskOf(cmd *cli.Command, now time.Time) (ax.Task, error) {
	task := ax.Task{
		Kind: cmd.Args().First(), Lane: cmd.String("lane"), Key: cmd.String("key"), ID: cmd.String("id"),
		Timeout: cmd.Duration("timeout"), MaxAttempts: cmd.Int("attempts"),
	}
	if task.Kind == "" {
		return task, usage("%s: no kind: want KIND [PAYLOAD], such as order.close '{}'", cmd.FullName())
	}
	if err := noMoreArgs(cmd, 2); err != nil {
		return task, err
	}
	if cmd.IsSet("after") && cmd.IsSet("at") {
		return task, usage("%s: --after and --at: want one of them", cmd.FullName())
	}
	if cmd.IsSet("after") {
		task.Due = now.Add(cmd.Duration("after"))
	}
	var err error
	if cmd.IsSet("at") {
		if task.Due, err = time.Parse(time.RFC3339, cmd.String("at")); err != nil {
			return task, usage("%s: --at %q: want RFC 3339, such as %s", cmd.FullName(), cmd.String("at"), now.UTC().Format(time.RFC3339))
		}
	}
	if cmd.IsSet("expires") {
		if task.Expires, err = expiry(cmd.String("expires"), now, task.Due); err != nil {
			return task, usage("%s: --expires %q: want RFC 3339, such as %s, or a time such as 1h", cmd.FullName(), cmd.String("expires"), now.UTC().Format(time.RFC3339))
		}
	}
	for _, h := range cmd.StringSlice("header") {
		name, value, ok := strings.Cut(h, "=")
		if !ok {
			return task, usage("%s: --header %q: want NAME=VALUE", cmd.FullName(), h)
		}
		task.Headers = append(task.Headers, ax.Header{Name: name, Value: []byte(value)})
	}
	return task, nil
}

// expiry reads an instant, or a time after the task is due.
func expiry(text string, now, due time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		if due.After(now) {
			now = due
		}
		return now.Add(d), nil
	}
	return time.Parse(time.RFC3339, text)
}

// payload returns the task's bytes.
func payload(cmd *cli.Command, most int) ([]byte, error) {
	file := cmd.String("file")
	if cmd.Args().Len() == 2 {
		if file != "" {
			return nil, usage("%s: PAYLOAD and --file: want one of them", cmd.FullName())
		}
		if file = cmd.Args().Get(1); file != "-" {
			return []byte(file), nil
		}
	}
	if file == "" {
		return nil, nil
	}
	return readPayload(cmd, file, most)
}

// readPayload reads a payload from a file, or from stdin for -. It reads one
// byte more than a task may have, so that the refusal can say so.
func readPayload(cmd *cli.Command, file string, most int) ([]byte, error) {
	var from io.Reader
	if file == "-" {
		from, file = cmd.Root().Reader, "stdin"
	} else {
		f, err := os.Open(file)
		if err != nil {
			return nil, usage("%s: payload: %w", cmd.FullName(), err)
		}
		defer func() { _ = f.Close() }()
		from = f
	}
	body, err := io.ReadAll(io.LimitReader(from, int64(most)+1))
	if err != nil {
		return nil, fmt.Errorf("%s: read the payload from %s: %w", cmd.FullName(), file, err)
	}
	return body, nil
}
