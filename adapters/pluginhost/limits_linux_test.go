// SPDX-License-Identifier: Apache-2.0

package pluginhost_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/wire"
)

// TestPluginThatEatsMemoryHarmsOnlyItself checks that a process ends when it reaches its memory
// limit. The call in progress has an unknown outcome, and the next call gets a new process. A
// different plugin is not affected.
func TestPluginThatEatsMemoryHarmsOnlyItself(t *testing.T) {
	host, logged := newHost(t, pluginhost.Options{Dir: pluginDir(t, "eats:puppet", "bystander:puppet"), Limits: wire.Limits{Memory: 256 << 20}})
	firstPID, bystanderPID := processID(t, host, "eats"), processID(t, host, "bystander")
	if _, err := tenantOf(host, "eats", "eat memory").Profile(t.Context()); outcome.KindOf(err) != outcome.Unknown {
		t.Fatalf("got %v, want an error of the kind unknown", err)
	}
	waitForLine(t, logged, `"plugin ended`, `"plugin":"eats"`, fmt.Sprintf(`"pid":%d,"exit":"exit status 2"`, firstPID))
	if newPID := processID(t, host, "eats"); newPID == firstPID {
		t.Errorf("the process %d that reached its limit still answers", firstPID)
	}
	if pid := processID(t, host, "bystander"); pid != bystanderPID {
		t.Errorf("the plugin `bystander` has process %d, want the same process %d", pid, bystanderPID)
	}
}

func TestPluginThatOpensFilesReachesItsLimit(t *testing.T) {
	policy := fastRestart
	policy.UsageInterval = time.Nanosecond // the host checks the usage after each call
	host, logged := newHost(t, pluginhost.Options{Dir: pluginDir(t, "puppet:puppet"), Limits: wire.Limits{OpenFiles: 100}, Supervision: policy})
	pid := processID(t, host, "puppet")
	profile, err := tenantOf(host, "puppet", "open files").Profile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if opened, err := strconv.Atoi(profile.Name); err != nil || opened < 10 || opened >= 100 {
		t.Errorf("the plugin opened %q files, %v, want 10 to 99", profile.Name, err)
	}
	if newPID := processID(t, host, "puppet"); newPID != pid {
		t.Errorf("the plugin has process %d, want the same process %d", newPID, pid)
	}
	waitForLine(t, logged, `"plugin has almost reached a limit"`, `"plugin":"puppet"`, fmt.Sprintf(`"pid":%d,"resource":"open files","used":100,"limit":100`, pid))
}

// TestLimitsHoldWhileAPluginIsAdded adds a script. Add starts it twice: with the argument describe,
// and as a plugin. Each time the script waits until the limit of open files is in force. Without
// the limit it waits until Add gives up. No system has the limit 57 by default.
func TestLimitsHoldWhileAPluginIsAdded(t *testing.T) {
	seenPath := filepath.Join(t.TempDir(), "seen")
	file := writeScript(t, `while [ "$(ulimit -n)" != 57 ]; do sleep 0.05; done
echo "limited $1" >> `+seenPath+`
[ "$1" = describe ] && echo '{"name":"x","kind":"mail","version":"1"}'`, 0o755)
	options := pluginhost.Options{Dir: filepath.Join(t.TempDir(), "plugins"), Limits: wire.Limits{OpenFiles: 57}, Supervision: fastRestart}
	if _, err := pluginhost.Add(t.Context(), options, file); err == nil || !strings.Contains(err.Error(), "does not work with") {
		t.Errorf("Add: got %v, want an error that the plugin does not work with the service", err)
	}
	if text, err := os.ReadFile(seenPath); err != nil || string(text) != "limited describe\nlimited \n" {
		t.Errorf("the processes wrote %q, %v, want one line of each start", text, err)
	}
}

// TestDescribeInheritsNoFile adds a script while the host has an open file that child processes
// inherit by default. The script lists its open files when it has to describe itself. The file must
// not be in the list.
func TestDescribeInheritsNoFile(t *testing.T) {
	dir := t.TempDir()
	inheritedPath, seenPath := filepath.Join(dir, "inherited"), filepath.Join(dir, "seen")
	fd, err := unix.Open(inheritedPath, unix.O_RDONLY|unix.O_CREAT, 0o600) // without O_CLOEXEC, unlike os.Open
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	file := writeScript(t, `[ "$1" = describe ] && ls -l /proc/$$/fd > `+seenPath+`; exit 7`, 0o755)
	if _, err := pluginhost.Add(t.Context(), pluginhost.Options{Dir: filepath.Join(dir, "plugins")}, file); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("Add: got %v, want the exit status 7 of the script", err)
	}
	files, err := os.ReadFile(seenPath)
	if err != nil || !strings.Contains(string(files), "0 -> /dev/null") || strings.Contains(string(files), inheritedPath) {
		t.Errorf("the script has these open files: %v\n%s\nwant /dev/null as standard input, and not %s", err, files, inheritedPath)
	}
}

// TestDescribeLeavesNoChildren adds plugins whose command `describe` starts a child process. The
// child must end when the caller cancels Add, and when the command ends before its child.
func TestDescribeLeavesNoChildren(t *testing.T) {
	for name, lastCommand := range map[string]string{"describe is cancelled": "wait", "describe ends": "echo '{}'"} {
		t.Run(name, func(t *testing.T) {
			startedPath := filepath.Join(t.TempDir(), "started")
			file := writeScript(t, "sleep 600 >/dev/null 2>&1 & echo $! > "+startedPath+".new; mv "+startedPath+".new "+startedPath+"; "+lastCommand, 0o755)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			addEnded := make(chan struct{})
			go func() {
				defer close(addEnded)
				_, _ = pluginhost.Add(ctx, pluginhost.Options{Dir: filepath.Join(t.TempDir(), "plugins")}, file)
			}()
			if lastCommand != "wait" {
				<-addEnded
			}
			var childID []byte
			for deadline := time.Now().Add(testTimeout); childID == nil; time.Sleep(time.Millisecond) {
				if childID, _ = os.ReadFile(startedPath); childID == nil && time.Now().After(deadline) {
					t.Fatal("describe did not start its child")
				}
			}
			cancel()
			<-addEnded
			child, err := strconv.Atoi(strings.TrimSpace(string(childID)))
			if err != nil {
				t.Fatal(err)
			}
			waitForExit(t, child, testTimeout)
		})
	}
}

// TestFailedDescriptionIsExplained adds a script that fails like a program without its second file.
// The error contains the last line with text that the script printed. It also says that a plugin of
// several files needs a manifest.
func TestFailedDescriptionIsExplained(t *testing.T) {
	options := pluginhost.Options{Dir: filepath.Join(t.TempDir(), "plugins")}
	failingScript := `i=0; while [ $i -lt 200 ]; do echo "a long traceback" >&2; i=$((i+1)); done; printf 'no module "x"\n\n' >&2; exit 1`
	_, err := pluginhost.Add(t.Context(), options, writeScript(t, failingScript, 0o755))
	if want := `exit status 1: "no module \"x\""; a plugin of several files needs a manifest`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Add: got %v, want an error with %s", err, want)
	}
}

// TestEndlessDescriptionIsRefused adds a script that never stops printing.
func TestEndlessDescriptionIsRefused(t *testing.T) {
	options := pluginhost.Options{Dir: filepath.Join(t.TempDir(), "plugins")}
	if _, err := pluginhost.Add(t.Context(), options, writeScript(t, "yes", 0o755)); err == nil || !strings.Contains(err.Error(), "is longer than") {
		t.Errorf("Add: got %v, want an error that the description is too long", err)
	}
}

// The ids of users that have no other process.
const testUser, containerUser = 61_234, 61_235

// TestPluginThatForksReachesItsLimit runs a host as a user that is not root, because the kernel
// does not limit root. The plugin starts processes until it fails. The host, which has the same
// user, can still start the plugin `bystander`. All processes end when the host stops.
func TestPluginThatForksReachesItsLimit(t *testing.T) {
	if wire.InPIDNamespace() {
		t.Skip("in a container, the processes of plugins are not limited")
	}
	hostCommand, lines, logged := startHost(t, testUser, false, "forks=fork", "bystander")
	var printed []int
	for len(printed) < 2 && lines.Scan() {
		number, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatalf("the host printed %q, want a number", lines.Text())
		}
		printed = append(printed, number)
	}
	// The limit allows hostProcesses processes more than the user has when the plugin starts (see
	// wire.Limits).
	if len(printed) != 2 || printed[0] < 1 || printed[0] > hostProcesses {
		t.Fatalf("the host printed %v, want the number of processes that the first plugin started, at most %d, and the id of the second plugin's process", printed, hostProcesses)
	}
	if running := processesOf(t, testUser); len(running) < printed[0] {
		t.Errorf("the user has the processes %v, want at least %d", running, printed[0])
	}
	waitForLine(t, logged, `"plugin has almost reached a limit"`, "plugin=forks", "resource=processes", fmt.Sprintf("limit=%d", hostProcesses))
	sendSignal(t, hostCommand.Process.Pid, unix.SIGTERM)
	if err := hostCommand.Wait(); err != nil {
		t.Error(err)
	}
	for _, pid := range processesOf(t, testUser) {
		waitForExit(t, pid, testTimeout)
	}
}

// TestProcessesAreNotLimitedInAContainer runs a host in a PID namespace of its own. The plugin has
// the limit of processes that this test has.
func TestProcessesAreNotLimitedInAContainer(t *testing.T) {
	_, lines, _ := startHost(t, containerUser, true, "bystander")
	if !lines.Scan() {
		t.Fatal("the host ended before the plugin answered")
	}
	running := processesOf(t, containerUser)
	if len(running) != 2 {
		t.Fatalf("the user has the processes %v, want the host and the plugin; the host printed %q", running, lines.Text())
	}
	want := processLimit(t, os.Getpid())
	for _, pid := range running {
		if limit := processLimit(t, pid); limit != want {
			t.Errorf("process %d has the limit %q, want %q", pid, limit, want)
		}
	}
}

// processLimit returns the line of /proc/PID/limits that has the limit of processes.
func processLimit(t *testing.T, pid int) string {
	t.Helper()
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(limits), "\nMax processes")
	line, _, found := strings.Cut(rest, "\n")
	if !found {
		t.Fatalf("no limit of processes in\n%s", limits)
	}
	return line
}

// startHost starts testdata/host as a user, with the plugins `forks` and `bystander`. With
// ownNamespace, the host is in a PID namespace of its own and has its own /proc, as in a container.
// startHost returns the command, the lines that it prints, and its log.
func startHost(t *testing.T, user uint32, ownNamespace bool, arguments ...string) (*exec.Cmd, *bufio.Scanner, *logBuffer) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	dir := pluginDir(t, "forks:puppet", "bystander:puppet")
	shared := shareWithEveryone(t, dir, testserver.Program(t, "testdata/host"))
	program := append([]string{filepath.Join(shared, "host"), filepath.Join(shared, "plugins")}, arguments...)
	attributes := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	if ownNamespace {
		unshare := []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"}
		if output, err := exec.Command(unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
			t.Skipf("this machine permits no PID namespace: %v: %s", err, output)
		}
		asUser := []string{"--setuid", fmt.Sprint(user), "--setgid", fmt.Sprint(user), "--"}
		program, attributes = slices.Concat(unshare, asUser, program), nil
	}
	cmd := exec.Command(program[0], program[1:]...)
	cmd.SysProcAttr = attributes
	cmd.Env = []string{"TMPDIR=" + filepath.Join(shared, "tmp")}
	logged := &logBuffer{}
	cmd.Stderr = logged
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, pid := range processesOf(t, user) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		_ = cmd.Wait() // an error if the test has called it
	})
	return cmd, bufio.NewScanner(stdout), logged
}

// processesOf returns the ids of the processes of a user.
func processesOf(t *testing.T, user uint32) []int {
	t.Helper()
	files, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, folder := range files {
		info, err := folder.Info()
		pid, pidErr := strconv.Atoi(folder.Name())
		if err == nil && pidErr == nil && info.Sys().(*syscall.Stat_t).Uid == user {
			pids = append(pids, pid)
		}
	}
	return pids
}

// hostProcesses is the limit of processes that testdata/host sets for plugins.
const hostProcesses = 64

// shareWithEveryone copies a plugin folder and a program to a new folder that every user can read.
// The new folder has a folder tmp in which every user can write.
func shareWithEveryone(t *testing.T, plugins, program string) string {
	t.Helper()
	shared, err := os.MkdirTemp("", "tenantry-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(shared) })
	copyFile := func(source, target string) {
		content, err := os.ReadFile(source)
		if err == nil {
			err = os.WriteFile(target, content, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"plugins": 0o755, "tmp": 0o777} {
		if err := os.Mkdir(filepath.Join(shared, name), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(shared, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(plugins)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		copyFile(filepath.Join(plugins, file.Name()), filepath.Join(shared, "plugins", file.Name()))
	}
	copyFile(program, filepath.Join(shared, "host"))
	return shared
}
