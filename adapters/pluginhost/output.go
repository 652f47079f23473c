// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/time/rate"
)

// A process may print linesPerSecond lines per second on average, and maxBurst lines at once.
// Further lines are dropped. maxBurst is enough for the stack traces of a panic. Texts longer than
// maxTextBytes are truncated.
const (
	linesPerSecond = 50
	maxBurst       = 300
	maxTextBytes   = 2048
)

// maxPanicLines is the maximum number of unindented lines that are withheld after the first line of
// a panic's message. Go indents all further lines of the panic's value. An unindented line comes
// from the Go runtime, such as [signal SIGSEGV ...], or from a goroutine that printed at the same
// time. It can also come from a plugin that did not panic.
const maxPanicLines = 20

// output writes a plugin's output to the host's log. The output is untrusted: its length and rate
// are limited, control characters are escaped, and the secrets that redactor knows are removed.
type output struct {
	log      *slog.Logger
	redactor *redactor

	mu         sync.Mutex
	limiter    *rate.Limiter
	dropped    int  // the number of lines over the limit since the last line that was logged
	withheld   int  // the number of withheld lines that the log does not report yet
	isInPanic  bool // the next line can belong to the message of a panic
	panicLines int  // the number of unindented lines since the first line of the panic
}

func newOutput(log *slog.Logger, r *redactor) *output {
	return &output{log: log, redactor: r, limiter: rate.NewLimiter(linesPerSecond, maxBurst)}
}

// writeLine logs one line of output. It drops the line if the limit is reached, and withholds it if
// it belongs to the message of a panic. It is safe for concurrent use.
func (o *output) writeLine(text []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(bytes.TrimSpace(text)) == 0 {
		return
	}
	withheld, begins := o.isPanicMessage(text)
	if withheld && !begins {
		o.withheld++
		return
	}
	if !o.limiter.Allow() {
		o.dropped++
		return
	}
	if o.dropped > 0 {
		o.log.Warn("plugin printed too much", "lines_dropped", o.dropped)
		o.dropped = 0
	}
	if o.withheld > 0 && o.limiter.Allow() {
		o.log.Warn("plugin output after a line that looks like a panic was withheld", "lines_withheld", o.withheld)
		o.withheld = 0
	}
	switch {
	case begins:
		o.log.Error("plugin panicked, or printed a line that looks like a panic; the message is withheld because it may contain a secret")
	case !o.logStructured(text):
		o.log.Info("plugin output", "text", o.sanitize(string(text)))
	}
}

// isPanicMessage reports whether a line belongs to the message of a panic (withheld), and whether
// the line is the first line of the message (begins). The message must not be logged, because it
// contains the panic's value. The value may be a secret that the redactor does not know, such as a
// token from the provider. The stack traces after the message are logged.
//
// A library that is not written in Go can print a line like the first line of a panic, without a
// stack trace. The message therefore also ends after maxPanicLines. Lines in the JSON format of
// hclog do not belong to the message.
func (o *output) isPanicMessage(text []byte) (withheld, begins bool) {
	if o.isInPanic && text[0] != '\t' {
		if parseStructured(text) != nil {
			return false, false
		}
		o.panicLines++
		o.isInPanic = o.panicLines <= maxPanicLines && !bytes.HasPrefix(text, []byte("goroutine "))
	}
	if !o.isInPanic && (bytes.HasPrefix(text, []byte("panic: ")) || bytes.HasPrefix(text, []byte("fatal error: "))) {
		o.isInPanic, o.panicLines, begins = true, 0, true
	}
	return o.isInPanic, begins
}

// parseStructured returns the members of a line in the JSON format of hclog. It returns nil if the
// line has a different format.
func parseStructured(text []byte) map[string]any {
	var members map[string]any
	if text[0] != '{' || json.Unmarshal(text, &members) != nil {
		return nil
	}
	if _, ok := members["@message"].(string); !ok {
		return nil
	}
	return members
}

// logStructured logs a line in the JSON format of hclog, with its level and without its time and
// module. If the line has a different format, it logs nothing and returns false.
func (o *output) logStructured(text []byte) bool {
	members := parseStructured(text)
	if members == nil {
		return false
	}
	message, _ := members["@message"].(string)
	attrs := []slog.Attr{slog.String("text", o.sanitize(message))}
	for _, id := range []string{"trace_id", "request_id"} {
		if v, ok := members[id].(string); ok {
			attrs = append(attrs, slog.String(id, o.sanitize(v)))
		}
	}
	level := levelOf(members["@level"])
	for _, member := range []string{"@message", "@level", "@timestamp", "@module", "trace_id", "request_id"} {
		delete(members, member)
	}
	if len(members) > 0 {
		// JSON would escape the quotes in a secret, so the redactor would not recognise the secret.
		var rest strings.Builder
		for _, key := range slices.Sorted(maps.Keys(members)) {
			fmt.Fprintf(&rest, "%s=%v ", key, members[key])
		}
		attrs = append(attrs, slog.String("fields", o.sanitize(strings.TrimSpace(rest.String()))))
	}
	o.log.LogAttrs(context.Background(), level, "plugin output", attrs...)
	return true
}

func levelOf(v any) slog.Level {
	switch v {
	case "trace", "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}

// sanitize redacts secrets, truncates the text to maxTextBytes, and escapes unprintable characters.
// It redacts before it truncates, because half a secret would not be recognised.
func (o *output) sanitize(text string) string {
	text = o.redactor.redact(text)
	if len(text) > maxTextBytes {
		text = text[:maxTextBytes] + "…"
	}
	var b strings.Builder
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		if unicode.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\x%02x`, text[i:i+size])
		}
	}
	return b.String()
}
