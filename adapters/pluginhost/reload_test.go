// SPDX-License-Identifier: Apache-2.0

package pluginhost_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/pluginhost/verified"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/outcome"
)

// offerVersion writes a catalog that lists a different version of the plugin puppet. The program of
// that version has the same code and a different checksum.
func offerVersion(t *testing.T, dir, version string) {
	t.Helper()
	content, err := os.ReadFile(testserver.Program(t, "testdata/puppet"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "mail-puppet-"+version)
	// The operating system ignores the appended bytes when it loads the program.
	if err := os.WriteFile(path, append(content, version...), 0o755); err != nil {
		t.Fatal(err)
	}
	entry := pluginhost.CatalogEntry{Name: "puppet", Kind: "mail", File: filepath.Base(path), SHA256: checksumOf(t, path), Version: version}
	writeCatalog(t, dir, entry)
}

// TestUpgradeTakesOverWithoutALostCall upgrades a plugin while a call is in progress. The call ends
// in the old process, and the next call reaches the new process. The old process is then stopped.
func TestUpgradeTakesOverWithoutALostCall(t *testing.T) {
	policy := fastRestart
	policy.DrainTimeout = testTimeout
	dir := pluginDir(t, "puppet:puppet") // the plugin puppet runs the program testdata/puppet
	host, _ := newHost(t, pluginhost.Options{Dir: dir, Supervision: policy})
	oldPID := processID(t, host, "puppet")
	ctx, cancel := context.WithCancel(t.Context())
	callErr := make(chan error, 1)
	go func() {
		_, err := tenantOf(host, "puppet", "hang").Profile(ctx)
		callErr <- err
	}()
	for callsInProgress(host) == 0 {
		time.Sleep(time.Millisecond) // until the call has begun
	}

	offerVersion(t, dir, "2.0.0")
	if err := host.Reload(); err != nil {
		t.Fatal(err)
	}
	newPID := processID(t, host, "puppet")
	if status := host.Status()[0]; newPID == oldPID || status.Version != "2.0.0" || status.PID != newPID {
		t.Fatalf("process %d after %d, status %+v, want a new process of version 2.0.0", newPID, oldPID, status)
	}
	select {
	case err := <-callErr:
		t.Fatalf("the call in progress ended: %v", err)
	default:
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", oldPID)); err != nil {
		t.Fatalf("the old process was stopped during its call: %v", err)
	}
	cancel()
	<-callErr
	waitForExit(t, oldPID, testTimeout)
	if status := host.Status()[0]; status.ConsecutiveFailures != 0 || status.PID != newPID {
		t.Errorf("after the exit of the old process: %+v, want no failure and the new process", status)
	}
	if description, err := host.Describe(t.Context(), "puppet"); err != nil || description.Version != "2.0.0" {
		t.Errorf("the plugin describes itself as version %s, %v, want 2.0.0", description.Version, err)
	}
}

// TestUnhealthyUpgradeIsRejected offers a version that does not start, and a version that reports a
// different number than the catalog. The old process keeps its calls. The version that does not
// start is not started again.
func TestUnhealthyUpgradeIsRejected(t *testing.T) {
	dir := pluginDir(t, "puppet:puppet")
	host, logged := newHost(t, pluginhost.Options{Dir: dir})
	oldPID := processID(t, host, "puppet")
	for range 2 {
		offerVersion(t, dir, "2.0.0-crashes")
		_ = host.Reload()
		if status := host.Status()[0]; processID(t, host, "puppet") != oldPID || status.Version != "1.2.3" || status.LastError != nil || status.State != pluginhost.Running {
			t.Fatalf("the status is %+v, want the running version 1.2.3 without an error, in the same process", status)
		}
	}
	if attempts := strings.Count(logged.String(), "the new version is not healthy"); attempts != 1 {
		t.Errorf("the rejected version was started %d times, want once", attempts)
	}
	offerVersion(t, dir, "3.0.0")
	editCatalog(t, dir, `"3.0.0"`, `"3.0.1"`) // the program reports a different version
	if err := host.Reload(); err == nil || !strings.Contains(err.Error(), "3.0.1") {
		t.Errorf("a program of version 3.0.0 that the catalog lists as 3.0.1: got %v, want an error that names 3.0.1", err)
	}
	offerVersion(t, dir, "3.0.0")
	if err := host.Reload(); err != nil || processID(t, host, "puppet") == oldPID {
		t.Errorf("a healthy version after a rejected version: %v, want a new process", err)
	}
}

// TestRejectedUpgradeKeepsTheCauseOfDelayedCalls offers a version with a wrong checksum while the
// restart of the current version is delayed. Calls and Describe still fail with the reason of the
// delay.
func TestRejectedUpgradeKeepsTheCauseOfDelayedCalls(t *testing.T) {
	dir := pluginDir(t, "puppet:puppet")
	policy := fastRestart
	policy.Backoff = time.Hour // does not end during the test
	host, _ := newHost(t, pluginhost.Options{Dir: dir, Supervision: policy})
	if _, err := tenantOf(host, "puppet", "exit").Profile(t.Context()); outcome.KindOf(err) != outcome.Unknown {
		t.Fatalf("a call that ends the process: %v", err)
	}
	for host.Status()[0].ConsecutiveFailures == 0 {
		time.Sleep(time.Millisecond) // until the exit is recorded
	}
	offerChangedFile(t, dir, "2.0.0")
	if err := host.Reload(); !errors.Is(err, verified.ErrChecksum) {
		t.Fatalf("an upgrade with a wrong checksum: %v", err)
	}
	var result *outcome.Error
	if _, err := tenantOf(host, "puppet", "").Profile(t.Context()); !errors.As(err, &result) || result.Cause != "plugin_restarting" {
		t.Errorf("a call of the current version: %v, want the cause plugin_restarting", err)
	}
	if _, err := host.Describe(t.Context(), "puppet"); err == nil || !strings.Contains(err.Error(), "exit status 4") {
		t.Errorf("Describe: %v, want the exit of the current version", err)
	}
}

// offerChangedFile is like offerVersion, but the file does not have the checksum of the catalog.
func offerChangedFile(t *testing.T, dir, version string) {
	t.Helper()
	offerVersion(t, dir, version)
	if err := os.WriteFile(filepath.Join(dir, "mail-puppet-"+version), []byte("changed"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestUpgradeThatFailsItsFirstCallIsReverted offers a version that is healthy and exits in its
// first call. The next call reaches the previous version at once.
func TestUpgradeThatFailsItsFirstCallIsReverted(t *testing.T) {
	dir := pluginDir(t, "puppet:puppet")
	policy := fastRestart
	policy.Backoff = time.Hour // a delayed restart would fail the call below
	host, _ := newHost(t, pluginhost.Options{Dir: dir, Supervision: policy})
	requireRunning(t, host, "puppet")
	offerVersion(t, dir, "2.0.0-exits-first")
	if err := host.Reload(); err != nil || host.Status()[0].Version != "2.0.0-exits-first" {
		t.Fatalf("%v, %+v, want the new version running", err, host.Status())
	}
	if _, err := tenantOf(host, "puppet", "").Profile(t.Context()); outcome.KindOf(err) != outcome.Unknown {
		t.Fatalf("the call that ended the new version: %v, want an error of the kind unknown", err)
	}
	for host.Status()[0].Version != "1.2.3" {
		time.Sleep(time.Millisecond) // until the exit is recorded
	}
	requireRunning(t, host, "puppet")
	if err := host.Reload(); err != nil || host.Status()[0].Version != "1.2.3" {
		t.Errorf("a reload after the rejection: %v, %+v, want version 1.2.3", err, host.Status())
	}
}

// TestUpgradeWithoutPreviousFilesIsRestarted deletes or overwrites the files of the previous
// version and offers a version that exits in its first call. The host cannot return to the previous
// version, so it starts the new version again.
func TestUpgradeWithoutPreviousFilesIsRestarted(t *testing.T) {
	const version = "2.0.0-exits-first"
	overwrite := func(t *testing.T, dir string) {
		path := filepath.Join(dir, "mail-puppet-"+version)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(content, "rebuilt"...), 0o755); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(append(content, "rebuilt"...)) // checksumOf has cached the old sum
		writeCatalog(t, dir, pluginhost.CatalogEntry{Name: "puppet", Kind: "mail", File: filepath.Base(path), SHA256: hex.EncodeToString(sum[:]), Version: version})
	}
	for name, change := range map[string]func(t *testing.T, dir string, host *pluginhost.Host){
		"overwritten": func(t *testing.T, dir string, _ *pluginhost.Host) {
			offerVersion(t, dir, version)
			overwrite(t, dir)
		},
		"removed and added": func(t *testing.T, dir string, host *pluginhost.Host) {
			writeCatalog(t, dir)
			if err := errors.Join(os.Remove(filepath.Join(dir, "mail-puppet")), host.Reload()); err != nil {
				t.Fatal(err)
			}
			offerVersion(t, dir, version)
		},
		"removed and added between two reloads": func(t *testing.T, dir string, _ *pluginhost.Host) {
			if err := os.Remove(filepath.Join(dir, "mail-puppet")); err != nil {
				t.Fatal(err)
			}
			offerVersion(t, dir, version)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := pluginDir(t, "puppet:puppet")
			if name == "overwritten" {
				offerVersion(t, dir, version)
			}
			host, _ := newHost(t, pluginhost.Options{Dir: dir})
			change(t, dir, host)
			if err := host.Reload(); err != nil || host.Status()[0].Version != version {
				t.Fatalf("%v, %+v, want the new version running", err, host.Status())
			}
			if _, err := tenantOf(host, "puppet", "").Profile(t.Context()); outcome.KindOf(err) != outcome.Unknown {
				t.Fatalf("the call that ended the new version: %v, want an error of the kind unknown", err)
			}
			for host.Status()[0].LastError == nil {
				time.Sleep(time.Millisecond) // until the exit is recorded
			}
			for {
				description, err := host.Describe(t.Context(), "puppet")
				var result *outcome.Error
				if errors.As(err, &result) && result.Cause == "plugin_restarting" && host.Status()[0].ConsecutiveFailures == 1 {
					time.Sleep(time.Millisecond) // until the delay of the restart has passed
					continue
				}
				if err != nil || description.Version != version {
					t.Errorf("the plugin runs version %q, %v, want the new version again", description.Version, err)
				}
				return
			}
		})
	}
}

// TestUpgradeThatHangsInItsFirstCallsIsReverted suspends a new version before its first call. The
// host kills it after three calls, and the next call reaches the previous version at once.
func TestUpgradeThatHangsInItsFirstCallsIsReverted(t *testing.T) {
	dir := pluginDir(t, "puppet:puppet")
	policy := fastRestart
	policy.Backoff, policy.PingTimeout = time.Hour, 100*time.Millisecond // a delayed restart would fail the call below
	host, logged := newHost(t, pluginhost.Options{Dir: dir, Supervision: policy})
	requireRunning(t, host, "puppet")
	offerVersion(t, dir, "2.0.0")
	if err := host.Reload(); err != nil || host.Status()[0].Version != "2.0.0" {
		t.Fatalf("%v, %+v, want the new version running", err, host.Status())
	}
	suspend(t, host.Status()[0].PID)
	for range 3 {
		if _, err := tenantOf(host, "puppet", "").Profile(withTimeout(t, 100*time.Millisecond)); outcome.KindOf(err) != outcome.Unknown {
			t.Fatalf("a call of the suspended version: %v, want an error of the kind unknown", err)
		}
	}
	waitForLine(t, logged, `"plugin does not answer and is killed"`, `"plugin":"puppet"`)
	waitForLine(t, logged, `"the new version failed before it answered a call`, `"plugin":"puppet"`, `"version":"1.2.3"`, `"rejected":"2.0.0"`)
	requireRunning(t, host, "puppet")
	if err := host.Reload(); err != nil || host.Status()[0].Version != "1.2.3" {
		t.Errorf("a reload after the rejection: %v, %+v, want version 1.2.3", err, host.Status())
	}
}

// TestRemovedPluginGetsNoCalls removes a plugin from the catalog and adds it again.
func TestRemovedPluginGetsNoCalls(t *testing.T) {
	dir := pluginDir(t, "puppet:puppet")
	host, _ := newHost(t, pluginhost.Options{Dir: dir})
	oldPID := processID(t, host, "puppet")
	catalog, err := os.ReadFile(filepath.Join(dir, "catalog.json"))
	if err != nil {
		t.Fatal(err)
	}
	writeCatalog(t, dir)
	watchCtx, stop := context.WithCancel(t.Context())
	defer stop()
	go host.Watch(watchCtx, time.Millisecond)
	if err := host.Reload(); err != nil {
		t.Fatal(err)
	}
	waitForExit(t, oldPID, testTimeout)
	var result *outcome.Error
	if _, err := tenantOf(host, "puppet", "").Profile(t.Context()); !errors.As(err, &result) || result.Cause != "plugin_missing" {
		t.Errorf("a call of the removed plugin: %v, want the cause plugin_missing", err)
	}
	if names := host.Names("mail"); len(names) != 0 || len(host.Status()) != 0 {
		t.Errorf("after the removal the host has the plugins %v and the status %v, want none", names, host.Status())
	}
	if err := os.WriteFile(filepath.Join(dir, "catalog.json"), catalog, 0o644); err != nil {
		t.Fatal(err)
	}
	for len(host.Names("mail")) == 0 {
		time.Sleep(time.Millisecond) // until Watch has read the catalog
	}
	requireRunning(t, host, "puppet")
}

// TestPluginOfADifferentKindIsRemoved changes the kind of a plugin in the catalog. The host stops
// the process, and then has the plugin in neither kind.
func TestPluginOfADifferentKindIsRemoved(t *testing.T) {
	dir := pluginDir(t, "puppet:puppet")
	host, _ := newHost(t, pluginhost.Options{Dir: dir})
	oldPID := processID(t, host, "puppet")
	file := filepath.Join(dir, "mail-puppet")
	writeCatalog(t, dir, pluginhost.CatalogEntry{Name: "puppet", Kind: "dns", File: "mail-puppet", SHA256: checksumOf(t, file), Version: "1.2.3"})
	if err := host.Reload(); err != nil {
		t.Fatal(err)
	}
	waitForExit(t, oldPID, testTimeout)
	if names := slices.Concat(host.Names("mail"), host.Names("dns")); len(names) != 0 {
		t.Errorf("the host has the plugins %v, want none", names)
	}
}

// TestCloseDoesNotWaitForADrainingProcess closes the host while a replaced process still executes a
// call.
func TestCloseDoesNotWaitForADrainingProcess(t *testing.T) {
	policy := fastRestart
	policy.DrainTimeout = time.Hour
	dir := pluginDir(t, "puppet:puppet")
	host, _ := newHost(t, pluginhost.Options{Dir: dir, Supervision: policy})
	oldPID := processID(t, host, "puppet")
	callEnded := make(chan struct{})
	go func() {
		defer close(callEnded)
		_, _ = tenantOf(host, "puppet", "hang").Profile(t.Context())
	}()
	for callsInProgress(host) == 0 {
		time.Sleep(time.Millisecond) // until the call has begun
	}
	offerVersion(t, dir, "2.0.0")
	if err := host.Reload(); err != nil {
		t.Fatal(err)
	}
	host.Close()
	waitForExit(t, oldPID, testTimeout)
	<-callEnded
}

// TestCloseEndsAnUpgradeInProgress closes the host while Reload starts a new version that does not
// complete its start.
func TestCloseEndsAnUpgradeInProgress(t *testing.T) {
	policy := fastRestart
	policy.StartTimeout = time.Hour
	dir := pluginDir(t, "puppet:puppet")
	host, _ := newHost(t, pluginhost.Options{Dir: dir, Supervision: policy})
	version := fmt.Sprintf("2.0.0-silent-%d", os.Getpid()) // a name that no other process has
	offerVersion(t, dir, version)
	reloadErr := make(chan error, 1)
	go func() { reloadErr <- host.Reload() }()
	newPID := waitForProcess(t, "mail-puppet-"+version)
	host.Close()
	waitForExit(t, newPID, 0)
	if err := <-reloadErr; err != nil {
		t.Errorf("Reload failed, although the host was closed: %v", err)
	}
}

// waitForProcess waits until a process with this name runs, and returns its id.
func waitForProcess(t *testing.T, name string) int {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		files, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if arguments, _ := os.ReadFile(file); string(arguments) == name+"\x00" {
				pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
				if err != nil {
					t.Fatal(err)
				}
				return pid
			}
		}
	}
	t.Fatalf("no process with the name %s started within %s", name, testTimeout)
	return 0
}

// callsInProgress returns the number of calls that the running process of the only plugin executes.
func callsInProgress(host *pluginhost.Host) int { return host.Status()[0].Calls }
