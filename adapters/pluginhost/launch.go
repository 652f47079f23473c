// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// instance is one process of a plugin. The mutex of its supervisor guards the fields below
// exitRecorded.
type instance struct {
	process      *wire.Process
	description  wire.Description
	exitRecorded chan struct{} // closed when the supervisor has recorded the exit

	calls   int           // in progress
	drained chan struct{} // set when the process was replaced; closed when no call is in progress

	answered            bool // the process answered at least one call
	killRequested       bool // Host.Kill was called for this process
	consecutiveTimeouts int  // calls in a row that ended at their deadline
	pinging             bool // a health check is running
}

// launch starts a process from the file of a catalog entry and asks for its description. It fails
// when the file does not have the checksum of the entry, when the process does not start in time,
// and when the described name or kind differs from the entry. After an error no process is left.
func (s *supervisor) launch(entry Entry) (*instance, error) {
	o := s.host.options
	file, err := openVerified(o.Dir, entry)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	output := newOutput(s.log, &s.host.redactor)
	p, err := wire.Start(wire.Launch{
		Exe:     executablePath(file),
		Name:    entry.File,
		Env:     pluginEnvironment(entry.Name, o.Env, o.TelemetryHeaders),
		Line:    func(line []byte) { panics.Guarded(func() { output.writeLine(line) }, s.logPanic)() },
		Timeout: s.policy.StartTimeout,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.policy.StartTimeout)
	defer cancel()
	d, err := p.Describe(ctx)
	if err == nil && (d.Name != entry.Name || string(d.Kind) != entry.Kind) {
		err = fmt.Errorf("the plugin describes itself as %.60q of kind %.60q, unlike the catalog", d.Name, d.Kind)
	}
	if err == nil && o.Waits != nil {
		err = p.ShareWaits(ctx, pluginWaits{entry.Name, o.Waits})
	}
	if err != nil {
		p.Kill()
		return nil, err
	}
	return &instance{process: p, description: d, exitRecorded: make(chan struct{})}, nil
}

// pluginWaits are the waits of one plugin in a store that all plugins share.
type pluginWaits struct {
	plugin string
	store  ports.Waits
}

// Wait implements ports.Waits.
func (w pluginWaits) Wait(ctx context.Context, scope string, atLeast time.Duration) time.Duration {
	return w.store.Wait(ctx, w.plugin+":"+scope, atLeast)
}

func (i *instance) exited() bool {
	select {
	case <-i.process.Exited():
		return true
	default:
		return false
	}
}

// errChecksum means that a plugin's file does not have the checksum of the catalog.
var errChecksum = errors.New("the file is not the one in the catalog (SHA-256 differs)")

// openVerified opens a plugin's file and compares its SHA-256 with the catalog entry. It returns
// errChecksum when they differ. Keep the file open until the process runs: on Linux the open file
// itself is executed, so replacing the path after the check has no effect.
func openVerified(dir string, e Entry) (*os.File, error) {
	f, err := os.Open(filepath.Join(dir, e.File))
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != strings.ToLower(e.SHA256) {
		_ = f.Close()
		return nil, errChecksum
	}
	return f, nil
}

// executablePath returns a path that executes the open file. On Linux the path contains the host's
// process id and the descriptor, because descriptor numbers may differ in the child. On other
// systems it is the file's path. There, only the permissions of the folder prevent a later
// replacement.
func executablePath(f *os.File) string {
	if runtime.GOOS == "linux" {
		return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd())
	}
	return f.Name()
}

// allowedVariables are the variables of the host's environment that a plugin receives. They
// configure the export of spans, the trusted certificate authorities and the time zone. All other
// variables may hold secrets.
var allowedVariables = []string{
	"OTEL_EXPORTER_OTLP_ENDPOINT",
	"OTEL_EXPORTER_OTLP_PROTOCOL",
	"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
	"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
	"OTEL_SDK_DISABLED",
	"OTEL_TRACES_EXPORTER",
	"OTEL_TRACES_SAMPLER",
	"OTEL_TRACES_SAMPLER_ARG",
	"SSL_CERT_FILE",
	"TZ",
}

// pluginEnvironment returns the environment of a plugin's process. The headers of the span exporter
// hold credentials. They come from telemetryHeaders only, never from hostEnv.
func pluginEnvironment(name string, hostEnv []string, telemetryHeaders secret.Text) []string {
	var env []string
	for _, variable := range hostEnv {
		key, value, _ := strings.Cut(variable, "=")
		for _, allowed := range allowedVariables {
			// A URL with user information contains a password.
			if key == allowed && !strings.Contains(value, "@") {
				env = append(env, variable)
			}
		}
	}
	env = append(env, "OTEL_SERVICE_NAME=tenantry-plugin-"+name)
	if !telemetryHeaders.Empty() {
		env = append(env, "OTEL_EXPORTER_OTLP_HEADERS="+telemetryHeaders.Reveal())
	}
	return env
}
