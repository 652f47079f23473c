// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/secret"
)

func TestOutputLines(t *testing.T) {
	for _, tt := range []struct {
		name, line, want string
	}{
		{"plain text", "hello", `level=INFO msg="plugin output" text=hello`},
		{"hclog", `{"@level":"warn","@message":"slow","@timestamp":"x","@module":"m","n":3,"a":"b"}`, `level=WARN msg="plugin output" text=slow fields="a=b n=3"`},
		{"ids go to their own members", `{"@level":"error","@message":"m","trace_id":"t1","request_id":"r1"}`, `level=ERROR msg="plugin output" text=m trace_id=t1 request_id=r1`},
		{"JSON of something else", `{"a":1}`, `level=INFO msg="plugin output" text="{\"a\":1}"`},
		{"control characters", "\x1b[2J\ttab\x00 \xff", `level=INFO msg="plugin output" text="\\x1b[2J\\x09tab\\x00 \\xff"`},
		{"a secret", "token hunter2hunter2!", `level=INFO msg="plugin output" text="token [redacted]!"`},
		{"a secret in JSON", `{"@message":"m","t":"x hunter2hunter2"}`, `level=INFO msg="plugin output" text=m fields="t=x [redacted]"`},
		{"a line of a secret of several", "-> second-line", `level=INFO msg="plugin output" text="-> [redacted]"`},
		{"an empty line", "  ", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			o := newOutput(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: withoutTime})), &redactor{})
			o.redactor.hold([]secret.Text{secret.New("hunter2hunter2"), secret.New("first-line\nsecond-line\n"), secret.New("ab")})
			o.line([]byte(tt.line))
			if got := strings.TrimSpace(log.String()); got != tt.want {
				t.Fatalf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestPanicTextIsWithheldUntilItsStack(t *testing.T) {
	var log bytes.Buffer
	o := newOutput(slog.New(slog.NewTextHandler(&log, nil)), &redactor{})
	for _, l := range []string{"before", "panic: first", "second line of it", "\tpanic: again", "", "goroutine 7 [running]:", "main.main()"} {
		o.line([]byte(l))
	}
	for _, says := range []string{"first", "second", "again"} {
		if strings.Contains(log.String(), says) {
			t.Errorf("the log says %q", says)
		}
	}
	for _, says := range []string{"before", "plugin panicked", "goroutine 7", "main.main()"} {
		if !strings.Contains(log.String(), says) {
			t.Errorf("the log does not say %q", says)
		}
	}
}

func TestDroppedLinesAreCounted(t *testing.T) {
	var log bytes.Buffer
	o := newOutput(slog.New(slog.NewTextHandler(&log, nil)), &redactor{})
	o.limit.SetLimit(0)
	for i := range linesAtOnce + 25 {
		o.line(fmt.Appendf(nil, "line %d", i))
	}
	if got := strings.Count(log.String(), "\n"); got != linesAtOnce {
		t.Fatalf("%d lines came through", got)
	}
	o.limit.SetBurst(linesAtOnce + 1)
	o.limit.SetLimit(1e9)
	for !strings.Contains(log.String(), "line last") {
		o.line([]byte("line last"))
	}
	if !strings.Contains(log.String(), "lines_dropped=") {
		t.Fatal("nobody says that lines were dropped")
	}
}

func TestSecretsAreForgotten(t *testing.T) {
	r := &redactor{}
	release := r.hold([]secret.Text{secret.New("short-lived")})
	other := r.hold([]secret.Text{secret.New("short-lived")})
	release()
	if got := r.clean("a short-lived b"); got != "a [redacted] b" {
		t.Fatalf("while another call holds it: %q", got)
	}
	other()
	if got := r.clean("short-lived"); got != "[redacted]" {
		t.Fatalf("right after the calls: %q", got)
	}
	r.held["short-lived"].until = r.held["short-lived"].until.Add(-2 * linger)
	r.swept = r.swept.Add(-2 * linger)
	r.hold(nil)
	if len(r.held) != 0 {
		t.Fatal("it is still held")
	}
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
