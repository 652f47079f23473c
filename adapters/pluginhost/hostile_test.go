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

func TestOversizedAnswerIsRefused(t *testing.T) {
	policy := fastRestart
	policy.StopGrace = 100 * time.Millisecond // the plugin giant never ends by itself
	host, _ := newHost(t, pluginhost.Options{Dir: pluginDir(t, "giant:hostile", "puppet:puppet"), Supervision: policy})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := tenantOf(host, "giant", "").Profile(t.Context())
	runtime.ReadMemStats(&after)
	if outcome.KindOf(err) != outcome.Broken {
		t.Fatalf("got %v, want an error of the kind broken", err)
	}
	// The plugin giant answers with 1 GiB.
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 64<<20 {
		t.Fatalf("the host allocated %d MiB, want at most 64", allocated>>20)
	}
	if _, err := tenantOf(host, "giant", "").Bootstrap(t.Context()); err != nil {
		t.Fatalf("the call after the oversized answer: %v", err)
	}
	// The SDK refuses to send a message that is too large.
	if _, err := tenantOf(host, "puppet", "huge").Profile(t.Context()); outcome.KindOf(err) != outcome.Broken {
		t.Fatalf("got %v, want an error of the kind broken", err)
	}
}

// TestAnswerThatCannotBeDecodedIsBroken checks a read and a write that the plugin answers with
// bytes that are not a message. The error names the plugin as the cause, and the process of the
// plugin continues.
func TestAnswerThatCannotBeDecodedIsBroken(t *testing.T) {
	host, logged := newHost(t, pluginhost.Options{Dir: pluginDir(t, "garbler:hostile")})
	garbler := tenantOf(host, "garbler", "", logCalls(t, logged, "garbler"))
	firstProgress, err := garbler.Bootstrap(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, readErr := garbler.Profile(t.Context())
	_, writeErr := garbler.AddDomain(t.Context(), "garbled.example")
	for name, err := range map[string]error{"read": readErr, "write": writeErr} {
		var result *outcome.Error
		if !errors.As(err, &result) || result.Kind != outcome.Broken || result.Cause != wire.CauseProtocol || outcome.ChangedNothing(err) {
			t.Errorf("the %s: got %v, want an error of the kind broken with the cause %s", name, err, wire.CauseProtocol)
		}
	}
	if lastProgress, err := garbler.Bootstrap(t.Context()); err != nil || lastProgress != firstProgress {
		t.Errorf("the call after the garbled answers: process %s, %v, want the same process %s", lastProgress.Message, err, firstProgress.Message)
	}
	if s := host.Status()[0]; s.Starts != 1 || s.State != pluginhost.Running {
		t.Errorf("the status is %+v, want the first process running", s)
	}
	if lines := countLines(logged, `"provider":"garbler"`, `"cause":"plugin_protocol"`); lines != 2 {
		t.Errorf("%d lines name the plugin as the cause, want 2:\n%s", lines, logged)
	}
}

// TestLogNamesThePluginAndItsFault checks that the log names the plugin and the cause of each
// failed call.
func TestLogNamesThePluginAndItsFault(t *testing.T) {
	policy := fastRestart
	policy.StopGrace = 100 * time.Millisecond // the plugin giant never ends by itself
	host, logged := newHost(t, pluginhost.Options{Dir: pluginDir(t, "giant:hostile", "puppet:puppet"), Supervision: policy})
	for _, tc := range []struct{ plugin, misbehaviour, wantCause string }{
		{"giant", "", wire.CauseTooLarge},
		{"puppet", "huge", wire.CauseTooLarge},
		{"puppet", "hang", wire.CauseDeadline},
		{"puppet", "panic", wire.CausePanic},
		{"puppet", "bare", wire.CauseUnclassified},
		{"puppet", "exit", wire.CausePluginExited},
	} {
		textsOfLine := []string{`"msg":"provider call failed"`, `"provider":"` + tc.plugin + `"`, `"operation":"profile"`, `"cause":"` + tc.wantCause + `"`}
		linesBefore := countLines(logged, textsOfLine...)
		ctx := t.Context()
		if tc.misbehaviour == "hang" {
			ctx = withTimeout(t, 50*time.Millisecond)
		}
		_, err := tenantOf(host, tc.plugin, tc.misbehaviour, logCalls(t, logged, tc.plugin)).Profile(ctx)
		if lines := countLines(logged, textsOfLine...) - linesBefore; err == nil || lines != 1 {
			t.Errorf("%s %s: %v, and %d lines with the cause %s, want an error and one line:\n%s", tc.plugin, tc.misbehaviour, err, lines, tc.wantCause, logged)
		}
	}
	waitForLine(t, logged, `"plugin ended`, `"plugin":"puppet"`, `"exit":"exit status 4"`)
}

func TestDifferentProtocolVersionIsRefused(t *testing.T) {
	host, _ := newHost(t, pluginhost.Options{Dir: pluginDir(t, "liar:hostile")})
	_, err := tenantOf(host, "liar", "").Profile(t.Context())
	var result *outcome.Error
	if !errors.As(err, &result) || result.Kind != outcome.Down || result.Cause != "plugin_version" {
		t.Fatalf("got %v, want an error of the kind down with the cause plugin_version", err)
	}
	_, err = host.Describe(t.Context(), "liar")
	if !errors.Is(err, wire.ErrVersion) || !strings.Contains(err.Error(), "Plugin version: 9") {
		t.Fatalf("got %v, want an error about plugin version 9", err)
	}
}

func TestPluginWithoutHandshakeIsDown(t *testing.T) {
	host, logged := newHost(t, pluginhost.Options{Dir: pluginDir(t, "babbler:hostile")})
	if _, err := tenantOf(host, "babbler", "").Profile(t.Context()); outcome.KindOf(err) != outcome.Down {
		t.Fatalf("got %v, want an error of the kind down", err)
	}
	if message := host.Status()[0].LastError.Error(); len(message) > 2048 || strings.ContainsAny(message, "\x1b\n") {
		t.Fatalf("the error is too long or has control characters: %q", message)
	}
	if strings.Contains(logged.String(), `\u001b`) {
		t.Fatal("a control character reached the log")
	}
}

// TestOutputAfterTheHandshakeIsDiscarded calls a plugin that writes more to its standard output in
// each call than a pipe holds, without a line break. The output must not block the plugin.
func TestOutputAfterTheHandshakeIsDiscarded(t *testing.T) {
	host, _ := newHost(t, pluginhost.Options{Dir: pluginDir(t, "writer:hostile")})
	var processes [2]string
	for i := range processes {
		progress, err := tenantOf(host, "writer", "").Bootstrap(withTimeout(t, testTimeout))
		if err != nil {
			t.Fatalf("call %d: %v", i+1, err)
		}
		processes[i] = progress.Message
	}
	if processes[0] != processes[1] {
		t.Errorf("the calls ran in the processes %v, want one process", processes)
	}
}

// TestPluginMustMatchTheCatalog checks that a plugin does not run under the name of a different
// plugin, or as a plugin of a different kind.
func TestPluginMustMatchTheCatalog(t *testing.T) {
	for _, tc := range []struct{ before, after, name string }{
		{`"name":"puppet"`, `"name":"microsoft365"`, "microsoft365"},
		{`"kind":"mail"`, `"kind":"sending"`, "puppet"},
	} {
		dir := pluginDir(t, "puppet:puppet")
		editCatalog(t, dir, tc.before, tc.after)
		host, _ := newHost(t, pluginhost.Options{Dir: dir})
		_, err := host.Describe(t.Context(), tc.name)
		if err == nil || !strings.Contains(err.Error(), `describes itself as "puppet" of kind "mail"`) {
			t.Errorf("the catalog has %s: got %v, want an error with the name and the kind of puppet", tc.after, err)
		}
	}
}

func TestOutputIsRateLimitedAndRedacted(t *testing.T) {
	host, logged := newHost(t, pluginhost.Options{Dir: pluginDir(t, "puppet:puppet")})
	start := time.Now()
	if _, err := tenantOf(host, "puppet", "flood").Profile(t.Context()); err != nil {
		t.Fatal(err)
	}
	host.Close() // closes the pipes, so the log is complete
	logs := logged.String()
	if strings.Contains(logs, token) {
		t.Fatal("a secret reached the log")
	}
	if countLines(logged, `"plugin":"puppet"`, `line 1 \\x1b[31m [redacted]`) != 1 {
		t.Fatalf("the first lines are missing, or do not name the plugin:\n%.2000s", logs)
	}
	// The limit is a burst of 300 lines and 50 lines a second. Each line may be followed by a line
	// with the number of dropped lines. The host itself logs a few lines.
	maxLines := 2*(300+50*int(time.Since(start).Seconds()+1)) + 100
	if lines := strings.Count(logs, "\n"); lines > maxLines {
		t.Fatalf("%d lines reached the log, want at most %d", lines, maxLines)
	}
	for line := range strings.Lines(logs) {
		if len(line) > 4096 {
			t.Fatalf("a line of %d bytes reached the log", len(line))
		}
	}
}

// TestPanicsDoNotLogSecrets covers panics with a secret, in a call and in a separate goroutine of
// the plugin. It also covers an error with a secret.
func TestPanicsDoNotLogSecrets(t *testing.T) {
	host, logged := newHost(t, pluginhost.Options{Dir: pluginDir(t, "puppet:puppet")})
	if _, err := tenantOf(host, "puppet", "panic").Profile(t.Context()); outcome.KindOf(err) != outcome.Broken {
		t.Fatalf("a panic in a call: %v, want an error of the kind broken", err)
	}
	_, err := tenantOf(host, "puppet", "die loudly").Profile(t.Context())
	if outcome.KindOf(err) != outcome.Unknown {
		t.Fatalf("a panic that ends the process: %v, want an error of the kind unknown", err)
	}
	waitForLine(t, logged, `"plugin ended`) // the next call needs a new process
	if _, err := tenantOf(host, "puppet", "bare").Profile(t.Context()); outcome.KindOf(err) != outcome.Broken || strings.Contains(err.Error(), token) {
		t.Fatalf("an error that quotes a secret: %v, want an error of the kind broken without the secret", err)
	}
	host.Close()
	logs := logged.String()
	if strings.Contains(logs, token) {
		t.Fatalf("a secret reached the log:\n%s", logs)
	}
	for _, want := range []string{"call panicked", "plugin panicked", "goroutine ", "puppet/main.go"} {
		if countLines(logged, `"plugin":"puppet"`, want) == 0 {
			t.Errorf("no line of the plugin has %q:\n%s", want, logs)
		}
	}
}
