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

// A plugin may say linesASecond for long and linesAtOnce in a burst, such as
// the stacks of its panic.
const (
	linesASecond = 50
	linesAtOnce  = 300
	shownLine    = 2048 // bytes
)

// output writes what a plugin prints into the host's log. It is text of a
// stranger: bounded, rate-limited, without control characters and without the
// secrets of the calls under way.
type output struct {
	log      *slog.Logger
	redactor *redactor

	mu      sync.Mutex
	limit   *rate.Limiter
	dropped int
	panics  bool // the text of a panic is coming, until its first stack
}

func newOutput(log *slog.Logger, r *redactor) *output {
	return &output{log: log, redactor: r, limit: rate.NewLimiter(linesASecond, linesAtOnce)}
}

// line takes one line. Lines of several pipes may come at once.
func (o *output) line(text []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(bytes.TrimSpace(text)) == 0 || o.withheld(text) {
		return
	}
	if !o.limit.Allow() {
		o.dropped++
		return
	}
	if o.dropped > 0 {
		o.log.Warn("plugin printed too much", "lines_dropped", o.dropped)
		o.dropped = 0
	}
	if o.structured(text) {
		return
	}
	o.log.Info("plugin output", "text", o.harmless(string(text)))
}

// withheld keeps the words of a panic to itself: they quote whatever value
// the code panicked with. The stacks after them are shown.
func (o *output) withheld(text []byte) bool {
	switch {
	case bytes.HasPrefix(text, []byte("panic: ")), bytes.HasPrefix(text, []byte("fatal error: ")):
		o.panics = true
		o.log.Error("plugin panicked; its words are withheld, they may quote a secret")
	case bytes.HasPrefix(text, []byte("goroutine ")):
		o.panics = false
	}
	return o.panics
}

// structured writes a line of hclog's JSON with its own level and members.
func (o *output) structured(text []byte) bool {
	var members map[string]any
	if text[0] != '{' || json.Unmarshal(text, &members) != nil {
		return false
	}
	message, ok := members["@message"].(string)
	if !ok {
		return false
	}
	attrs := []slog.Attr{slog.String("text", o.harmless(message))}
	for _, id := range []string{"trace_id", "request_id"} {
		if v, ok := members[id].(string); ok {
			attrs = append(attrs, slog.String(id, o.harmless(v)))
		}
	}
	level := levelOf(members["@level"])
	for _, known := range []string{"@message", "@level", "@timestamp", "@module", "trace_id", "request_id"} {
		delete(members, known)
	}
	if len(members) > 0 {
		// The values one by one, since JSON would hide a secret's quotes.
		var rest strings.Builder
		for _, key := range slices.Sorted(maps.Keys(members)) {
			fmt.Fprintf(&rest, "%s=%v ", key, members[key])
		}
		attrs = append(attrs, slog.String("fields", o.harmless(strings.TrimSpace(rest.String()))))
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

// harmless redacts before it cuts: half a secret would not be recognised.
func (o *output) harmless(text string) string {
	text = o.redactor.clean(text)
	if len(text) > shownLine {
		text = text[:shownLine] + "…"
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
