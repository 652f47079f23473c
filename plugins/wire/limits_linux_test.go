// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// TestPluginInheritsNoFile opens a file that a child process would inherit, and checks that a
// plugin does not inherit the file. A service manager opens such files for its services.
func TestPluginInheritsNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inherited")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	printed, err := startScript(t, "ls -l /proc/$$/fd >&2"+endOfOutput)
	if err == nil || !strings.Contains(printed, "0 -> pipe:") {
		t.Fatalf("the script printed %q, %v, want the list of its files", printed, err)
	}
	if strings.Contains(printed, path) {
		t.Fatalf("the plugin has inherited %s, want it closed:\n%s", path, printed)
	}
}

// TestLimitsAreInForce reads the limits of a running plugin from the kernel, except the limit of
// processes.
func TestLimitsAreInForce(t *testing.T) {
	p, err := Start(Launch{
		Exe: testserver.Program(t, "testdata/puppet"), Name: "mail-puppet", OnLine: func([]byte) {}, Timeout: testTimeout,
		Limits: Limits{Memory: 300 << 20, OpenFiles: 200, Processes: 100},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	for name, resource := range map[string]struct {
		id   int
		want uint64
	}{"memory": {unix.RLIMIT_DATA, 300 << 20}, "open files": {unix.RLIMIT_NOFILE, 200}, "core files": {unix.RLIMIT_CORE, 0}} {
		var limit unix.Rlimit
		if err := unix.Prlimit(p.PID(), resource.id, nil, &limit); err != nil || limit != (unix.Rlimit{Cur: resource.want, Max: resource.want}) {
			t.Errorf("the kernel's limit of %s is %+v, %v, want %d", name, limit, err, resource.want)
		}
	}
	want := Limits{Memory: 300 << 20, OpenFiles: 200, Processes: 100}
	if os.Geteuid() == 0 || InPIDNamespace() {
		want.Processes = 0 // not in force
	}
	if p.Limits() != want {
		t.Errorf("the limits in force are %s, want %s", p.Limits(), want)
	}
}
