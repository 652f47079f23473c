// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/doctor"
)

// newTerminal opens a pseudo-terminal. A command that reads from commandSide gets the text that is
// written to userSide.
func newTerminal(t *testing.T) (userSide, commandSide *os.File) {
	t.Helper()
	userSide, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { _ = userSide.Close() })
	must(t, unix.IoctlSetPointerInt(int(userSide.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(userSide.Fd()), unix.TIOCGPTN)
	must(t, err)
	commandSide, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	must(t, err)
	t.Cleanup(func() { _ = commandSide.Close() })
	return userSide, commandSide
}

// TestAccountCloseAsksForConfirmation checks that the answer "Y" closes the account. An empty
// answer, "n", "yes, but", the end of the input and Ctrl-C do not.
func TestAccountCloseAsksForConfirmation(t *testing.T) {
	t.Parallel()
	env := []string{"TENANTRY_DATA_DIR=" + t.TempDir()}
	runTenantry(t, env, "migrate", "-o", "json").mustJSON(t)
	runTenantry(t, env, "account", "create", "--email", "ann@example.com", "-o", "json").mustJSON(t)
	for _, tc := range []struct {
		typed    string // "" means Ctrl-C
		exitCode int
		status   string
	}{
		{"\n", cli.ExitRefused, "active"},
		{"n\n", cli.ExitRefused, "active"},
		{"yes, but\n", cli.ExitRefused, "active"},
		{"\x04", cli.ExitRefused, "active"}, // end of input
		{"", cli.ExitRefused, "active"},
		{"Y\n", 0, "closed"},
	} {
		userSide, commandSide := newTerminal(t)
		code, stderr := closeFromTerminal(t, env, userSide, commandSide, tc.typed)
		if code != tc.exitCode || !strings.Contains(stderr, "Close the account") || !strings.Contains(stderr, "ann@example.com") {
			t.Errorf("%q: exit code %d, want %d and a question that names the account\n%s", tc.typed, code, tc.exitCode, stderr)
		}
		checkValues(t, runTenantry(t, env, "account", "show", "--account", "ann@example.com", "-o", "json").mustJSON(t), object{"status": tc.status})
	}
}

// closeFromTerminal runs `account close` on a terminal, and types the text at the prompt. If typed
// is empty, it interrupts the command instead. It returns the exit code and the standard error.
func closeFromTerminal(t *testing.T, env []string, userSide, commandSide *os.File, typed string) (int, string) {
	t.Helper()
	prompt := &promptWatcher{want: "[y/N]", seen: make(chan struct{})}
	cmd := exec.CommandContext(t.Context(), requirePrograms(t, releaseBuild).binary, "account", "close", "--account", "ann@example.com")
	cmd.Dir, cmd.Env = t.TempDir(), append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + scratchDir}, env...)
	cmd.Stdin, cmd.Stderr = commandSide, prompt
	must(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	select {
	case <-prompt.seen:
	case <-ended:
		t.Fatalf("account close ended without a question: %s", prompt.output.String())
	}
	if typed == "" {
		_ = cmd.Process.Signal(os.Interrupt)
	} else if _, err := userSide.WriteString(typed); err != nil {
		t.Fatal(err)
	}
	<-ended
	return cmd.ProcessState.ExitCode(), prompt.output.String()
}

// promptWatcher collects output and closes seen when the output contains want.
type promptWatcher struct {
	want   string
	seen   chan struct{}
	output bytes.Buffer
	found  bool
}

func (watcher *promptWatcher) Write(p []byte) (int, error) {
	watcher.output.Write(p)
	if !watcher.found && strings.Contains(watcher.output.String(), watcher.want) {
		watcher.found = true
		close(watcher.seen)
	}
	return len(p), nil
}

// TestCommandRunByTheWrongUserIsExplained checks that commands without access to the database and
// the keyset tell the operator to run them as the user of the service.
func TestCommandRunByTheWrongUserIsExplained(t *testing.T) {
	t.Parallel()
	dataDir := filepath.Join(t.TempDir(), "data")
	env := []string{"TENANTRY_DATA_DIR=" + dataDir}
	runTenantry(t, env, "migrate", "-o", "json").mustJSON(t)
	runTenantry(t, env, "account", "create", "--email", "ann@example.com", "-o", "json").mustJSON(t)
	runTenantry(t, env, "keyset", "create", "-o", "json").mustJSON(t)
	for _, args := range [][]string{{"account", "list"}, {"keyset", "list"}, {"backup", filepath.Join(t.TempDir(), "b")}} {
		result := runWithoutAccess(t, dataDir, args...)
		if result.code != cli.ExitRefused || !strings.Contains(result.stderr, "as the user of the service") {
			t.Errorf("%v: exit code %d, want a refusal that names the user of the service: %s", args, result.code, result.stderr)
		}
	}
	var report object
	must(t, json.Unmarshal([]byte(runWithoutAccess(t, dataDir, "doctor", "-o", "json").stdout), &report))
	explained := 0
	for _, check := range report.objects("checks") {
		if id := check.text("id"); id == "database" || id == "keyset" {
			explained++
			checkValues(t, check, object{"status": doctor.Failed})
			if !strings.Contains(check.text("fix"), "as the user of the service") {
				t.Errorf("the fix of %s is %q, want one that names the user of the service", id, check.text("fix"))
			}
		}
	}
	if explained != 2 {
		t.Errorf("the report is %v, want the checks database and keyset", report)
	}
}

// TestPluginAddWithoutWriteAccessIsExplained checks that `plugin add` by a user who may not write
// the plugin folder names this folder in its fix.
func TestPluginAddWithoutWriteAccessIsExplained(t *testing.T) {
	t.Parallel()
	pluginDir := t.TempDir()
	must(t, os.Chmod(pluginDir, 0o555))
	plugin := filepath.Join(requirePrograms(t, releaseBuild).folder, "plugins", "dns-powerdns")
	result := runAsDifferentUser(t, t.TempDir(), "plugin", "add", "--plugin-dir", pluginDir, plugin)
	if result.code != cli.ExitRefused || !strings.Contains(result.stderr, "must be able to write the plugin folder "+pluginDir) {
		t.Errorf("exit code %d, want a refusal whose fix names the plugin folder: %s", result.code, result.stderr)
	}
}

// TestDoctorFindsThatTheDatabaseCannotBeWritten runs doctor as a user who may only read the
// database. The check must fail. Its fix must be to run doctor as the user of the service. To
// change the mode of the file could lock out this user.
func TestDoctorFindsThatTheDatabaseCannotBeWritten(t *testing.T) {
	t.Parallel()
	dataDir := filepath.Join(t.TempDir(), "data")
	runTenantry(t, []string{"TENANTRY_DATA_DIR=" + dataDir}, "migrate", "-o", "json").mustJSON(t)
	must(t, os.Chmod(dataDir, 0o777)) // SQLite creates files in the folder, even to read
	must(t, os.Chmod(filepath.Join(dataDir, "tenantry.db"), 0o444))
	var report object
	must(t, json.Unmarshal([]byte(runAsDifferentUser(t, dataDir, "doctor", "-o", "json").stdout), &report))
	check := report.objects("checks")[0]
	checkValues(t, check, object{"id": "database", "status": doctor.Failed})
	if !strings.Contains(check.text("summary"), "permission denied") || !strings.Contains(check.text("fix"), "as the user of the service") {
		t.Errorf("the check is %v, want the missing permission, and a fix that names the user of the service", check)
	}
}

// runWithoutAccess runs a command that cannot read its database and keyset, because their mode is
// 0.
func runWithoutAccess(t *testing.T, dataDir string, args ...string) commandResult {
	t.Helper()
	for _, name := range []string{"tenantry.db", "keyset.json"} {
		must(t, os.Chmod(filepath.Join(dataDir, name), 0))
	}
	return runAsDifferentUser(t, dataDir, args...)
}

// runAsDifferentUser runs a command. If the test runs as root, which ignores the modes of files,
// the command runs as a different user.
func runAsDifferentUser(t *testing.T, dataDir string, args ...string) commandResult {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), requirePrograms(t, releaseBuild).binary, args...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "TENANTRY_DATA_DIR=" + dataDir}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534} // usually the user nobody
		makeEnterable(t, dataDir)
		makeEnterable(t, requirePrograms(t, releaseBuild).folder)
	}
	_ = cmd.Run()
	return commandResult{args, cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// makeEnterable lets every user enter a folder of the tests and its parents below the temporary
// folder.
func makeEnterable(t *testing.T, folder string) {
	t.Helper()
	for ; folder != filepath.Clean(os.TempDir()) && folder != "/"; folder = filepath.Dir(folder) {
		info, err := os.Stat(folder)
		must(t, err)
		must(t, os.Chmod(folder, info.Mode().Perm()|0o055))
	}
}
