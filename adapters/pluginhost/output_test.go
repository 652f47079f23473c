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

func TestOutputLinesAreSanitized(t *testing.T) {
	for _, tc := range []struct {
		name, line, want string
	}{
		{"plain text", "hello", `level=INFO msg="plugin output" text=hello`},
		{"hclog", `{"@level":"warn","@message":"slow","@timestamp":"x","@module":"m","n":3,"a":"b"}`, `level=WARN msg="plugin output" text=slow fields="a=b n=3"`},
		{"trace and request ids are attributes", `{"@level":"error","@message":"m","trace_id":"t1","request_id":"r1"}`, `level=ERROR msg="plugin output" text=m trace_id=t1 request_id=r1`},
		{"JSON that is not of hclog", `{"a":1}`, `level=INFO msg="plugin output" text="{\"a\":1}"`},
		{"control characters", "\x1b[2J\ttab\x00 \xff", `level=INFO msg="plugin output" text="\\x1b[2J\\x09tab\\x00 \\xff"`},
		{"a secret", "token hunter2hunter2!", `level=INFO msg="plugin output" text="token [redacted]!"`},
		{"a secret in JSON", `{"@message":"m","t":"x hunter2hunter2"}`, `level=INFO msg="plugin output" text=m fields="t=x [redacted]"`},
		{"one line of a secret with several lines", "-> second-line", `level=INFO msg="plugin output" text="-> [redacted]"`},
		{"an empty line", "  ", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log bytes.Buffer
			pluginOutput := newOutput(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: withoutTime})), &redactor{})
			pluginOutput.redactor.holdSecrets([]secret.Text{secret.New("hunter2hunter2"), secret.New("first-line\nsecond-line\n"), secret.New("ab")})
			pluginOutput.writeLine([]byte(tc.line))
			if got := strings.TrimSpace(log.String()); got != tc.want {
				t.Fatalf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestPanicMessageIsWithheldAndItsStackLogged(t *testing.T) {
	var log bytes.Buffer
	pluginOutput := newOutput(slog.New(slog.NewTextHandler(&log, nil)), &redactor{})
	for _, line := range []string{"before", "panic: first", "\tsecond line of the message", "\tpanic: again", "", "goroutine 7 [running]:", "main.main()"} {
		pluginOutput.writeLine([]byte(line))
	}
	for _, text := range []string{"first", "second", "again"} {
		if strings.Contains(log.String(), text) {
			t.Errorf("the log contains %q", text)
		}
	}
	for _, text := range []string{"before", "plugin panicked", "goroutine 7", "main.main()"} {
		if !strings.Contains(log.String(), text) {
			t.Errorf("the log does not contain %q", text)
		}
	}
}

// TestOutputAfterAPanicMessageWithoutAStackIsLogged writes the output of a plugin whose C library
// prints a line like the first line of a panic. The plugin then continues. Lines in the JSON format
// of hclog are logged at once, and other lines only after maxPanicLines.
func TestOutputAfterAPanicMessageWithoutAStackIsLogged(t *testing.T) {
	var log bytes.Buffer
	pluginOutput := newOutput(slog.New(slog.NewTextHandler(&log, nil)), &redactor{})
	pluginOutput.writeLine([]byte("fatal error: cannot load the certificate"))
	pluginOutput.writeLine([]byte(`{"@level":"error","@message":"the zone cannot be read"}`))
	for range maxPanicLines {
		pluginOutput.writeLine([]byte("withheld"))
		pluginOutput.writeLine([]byte("\tan indented line"))
	}
	pluginOutput.writeLine([]byte("the plugin continues"))
	for _, text := range []string{`level=ERROR msg="plugin output" text="the zone cannot be read"`, fmt.Sprintf("lines_withheld=%d", 2*maxPanicLines), "the plugin continues"} {
		if !strings.Contains(log.String(), text) {
			t.Errorf("the log does not contain %q", text)
		}
	}
	for _, text := range []string{"certificate", "text=withheld", "indented"} {
		if strings.Contains(log.String(), text) {
			t.Errorf("the log contains %q", text)
		}
	}
}

func TestPanicMessagesAreLimited(t *testing.T) {
	var log bytes.Buffer
	pluginOutput := newOutput(slog.New(slog.NewTextHandler(&log, nil)), &redactor{})
	pluginOutput.limiter.SetLimit(0)
	for range maxBurst {
		for _, line := range []string{"panic: first", "panic: second", "goroutine 7 [running]:"} {
			pluginOutput.writeLine([]byte(line))
		}
	}
	if got := strings.Count(log.String(), "\n"); got != maxBurst {
		t.Fatalf("%d lines were logged, want %d", got, maxBurst)
	}
	if strings.Contains(log.String(), "second") {
		t.Error("the log contains the message of a panic")
	}
}

func TestDroppedLinesAreCounted(t *testing.T) {
	var log bytes.Buffer
	pluginOutput := newOutput(slog.New(slog.NewTextHandler(&log, nil)), &redactor{})
	pluginOutput.limiter.SetLimit(0)
	for i := range maxBurst + 25 {
		pluginOutput.writeLine(fmt.Appendf(nil, "line %d", i))
	}
	if got := strings.Count(log.String(), "\n"); got != maxBurst {
		t.Fatalf("%d lines were logged, want %d", got, maxBurst)
	}
	pluginOutput.limiter.SetBurst(maxBurst + 1)
	pluginOutput.limiter.SetLimit(1e9)
	for !strings.Contains(log.String(), "line last") {
		pluginOutput.writeLine([]byte("line last"))
	}
	if !strings.Contains(log.String(), "lines_dropped=") {
		t.Fatal("the log does not count the dropped lines")
	}
}

func TestSecretsAreForgottenAfterTheirCalls(t *testing.T) {
	r := &redactor{}
	releaseEarlierCall := r.holdSecrets([]secret.Text{secret.New("short-lived")})
	releaseLaterCall := r.holdSecrets([]secret.Text{secret.New("short-lived")})
	releaseEarlierCall()
	if got := r.redact("a short-lived b"); got != "a [redacted] b" {
		t.Fatalf("while the later call uses the secret: got %q, want it redacted", got)
	}
	releaseLaterCall()
	if got := r.redact("short-lived"); got != "[redacted]" {
		t.Fatalf("right after the calls: got %q, want the secret redacted", got)
	}
	r.activeSecrets["short-lived"].redactUntil = r.activeSecrets["short-lived"].redactUntil.Add(-2 * holdAfterCall)
	r.sweptAt = r.sweptAt.Add(-2 * holdAfterCall)
	r.holdSecrets(nil)
	if len(r.activeSecrets) != 0 {
		t.Fatalf("the secret is still stored %s after its calls", 2*holdAfterCall)
	}
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
