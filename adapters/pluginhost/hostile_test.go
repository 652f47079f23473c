// SPDX-License-Identifier: Apache-2.0

package pluginhost_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/wire"
)

func TestAnswerOfOneGibibyte(t *testing.T) {
	p := quick
	p.Stop = 100 * time.Millisecond // the plugin never ends by itself
	h, _ := host(t, pluginhost.Options{Dir: folder(t, "giant:hostile", "puppet:puppet"), Patience: p})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := doing(h, "giant", "").Profile(t.Context())
	runtime.ReadMemStats(&after)
	if outcome.Of(err) != outcome.Broken {
		t.Fatalf("got %v", err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
		t.Fatalf("the host took %d MiB for it", grown>>20)
	}
	if _, err := doing(h, "giant", "").SMTPAuth(t.Context()); err != nil {
		t.Fatalf("the next call: %v", err)
	}
	// A plugin made with the SDK does not even send what is too large.
	if _, err := doing(h, "puppet", "huge").Profile(t.Context()); outcome.Of(err) != outcome.Broken {
		t.Fatalf("got %v", err)
	}
}

func TestOtherProtocolVersion(t *testing.T) {
	h, _ := host(t, pluginhost.Options{Dir: folder(t, "liar:hostile"), Patience: quick})
	_, err := doing(h, "liar", "").Profile(t.Context())
	var o *outcome.Error
	if !errors.As(err, &o) || o.Kind != outcome.Down || o.Cause != "plugin_version" {
		t.Fatalf("got %v", err)
	}
	_, err = h.Describe(t.Context(), "liar")
	if !errors.Is(err, wire.ErrVersion) || !strings.Contains(err.Error(), "Plugin version: 9") {
		t.Fatalf("got %v", err)
	}
}

func TestNoHandshake(t *testing.T) {
	h, j := host(t, pluginhost.Options{Dir: folder(t, "babbler:hostile"), Patience: quick})
	if _, err := doing(h, "babbler", "").Profile(t.Context()); outcome.Of(err) != outcome.Down {
		t.Fatalf("got %v", err)
	}
	if said := h.Status()[0].LastError.Error(); len(said) > 2048 || strings.ContainsAny(said, "\x1b\n") {
		t.Fatalf("the error repeats the plugin's words: %q", said)
	}
	if strings.Contains(j.String(), `\u001b`) {
		t.Fatal("a control character reached the log")
	}
}

// TestAnotherPluginsName: a file that is catalogued under a name has to be
// that plugin.
func TestAnotherPluginsName(t *testing.T) {
	dir := folder(t, "puppet:puppet")
	rename(t, dir, `"name":"puppet"`, `"name":"microsoft365"`)
	h, _ := host(t, pluginhost.Options{Dir: dir})
	_, err := h.Describe(t.Context(), "microsoft365")
	if err == nil || !strings.Contains(err.Error(), `says it is "puppet"`) {
		t.Fatalf("got %v", err)
	}
}

func TestFloodIsBoundedAndRedacted(t *testing.T) {
	h, j := host(t, pluginhost.Options{Dir: folder(t, "puppet:puppet")})
	began := time.Now()
	if _, err := doing(h, "puppet", "flood").Profile(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.Close() // ends the pipes, so all that is to come has come
	said := j.String()
	if strings.Contains(said, token) {
		t.Fatal("a secret reached the log")
	}
	if !strings.Contains(said, `line 1 \\x1b[31m [redacted]`) {
		t.Fatalf("the first lines are missing:\n%.2000s", said)
	}
	// 300 at once, 50 a second, each with a count of those that were dropped,
	// and a few of the host itself.
	most := 2*(300+50*int(time.Since(began).Seconds()+1)) + 100
	if lines := strings.Count(said, "\n"); lines > most {
		t.Fatalf("%d lines reached the log, want at most %d", lines, most)
	}
	for line := range strings.Lines(said) {
		if len(line) > 4096 {
			t.Fatalf("a line of %d bytes reached the log", len(line))
		}
	}
}

// TestPanicsDoNotSpeak: a panic that quotes a secret, in a call and in a
// goroutine of the author's.
func TestPanicsDoNotSpeak(t *testing.T) {
	h, j := host(t, pluginhost.Options{Dir: folder(t, "puppet:puppet"), Patience: quick})
	if _, err := doing(h, "puppet", "panic").Profile(t.Context()); outcome.Of(err) != outcome.Broken {
		t.Fatalf("a panic in a call: %v", err)
	}
	_, err := doing(h, "puppet", "die loudly").Profile(t.Context())
	if outcome.Of(err) != outcome.Unknown {
		t.Fatalf("a panic that ends the process: %v", err)
	}
	if _, err := doing(h, "puppet", "bare").Profile(t.Context()); outcome.Of(err) != outcome.Broken || strings.Contains(err.Error(), token) {
		t.Fatalf("an error that quotes a secret: %v", err)
	}
	h.Close()
	said := j.String()
	if strings.Contains(said, token) {
		t.Fatalf("a secret reached the log:\n%s", said)
	}
	for _, want := range []string{"call panicked", "plugin panicked", "goroutine ", "puppet/main.go"} {
		if !strings.Contains(said, want) {
			t.Errorf("the log lacks %q:\n%s", want, said)
		}
	}
}
