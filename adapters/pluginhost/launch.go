// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/tenantry/tenantry/adapters/pluginhost/verified"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// instance is one process of a plugin. The mutex of its supervisor guards the fields after
// exitRecorded.
type instance struct {
	process      *wire.Process
	files        *verified.Plugin
	description  wire.Description
	exitRecorded chan struct{} // closed when the supervisor has recorded the exit

	calls   int           // number of calls in progress
	drained chan struct{} // nil until drain is called, closed once no call is in progress any more

	hasAnswered         bool            // the process answered at least one call
	wasKillRequested    bool            // Host.Kill was called for this process
	consecutiveTimeouts int             // consecutive calls that ended at their deadline
	isPinging           bool            // a health check is running
	usageCheckAt        time.Time       // the earliest time of the next warnOfUsage
	warnedOf            map[string]bool // resources about which a warning was logged
}

// launch starts a process from the files of the catalog entry and asks for its description. It
// fails when the files do not have the checksum of the entry, and when the process does not start
// and answer its first calls in time. It also fails when the described name or kind differs from
// the entry, and when the supervisor is closed during the start. If launch fails, no process is
// left.
func (s *supervisor) launch(entry CatalogEntry) (*instance, error) {
	options := s.host.options
	files, err := verified.Open(filepath.Join(options.Dir, entry.File), entry.SHA256)
	if err != nil {
		return nil, err
	}
	output := newOutput(s.log, &s.host.redactor)
	p, err := wire.Start(wire.Launch{
		Exe:     files.Path(),
		Name:    entry.File,
		Env:     pluginEnvironment(entry.Name, options.Env, options.TelemetryHeaders),
		OnLine:  func(line []byte) { panics.Guarded(func() { output.writeLine(line) }, s.logPanic)() },
		Limits:  options.Limits,
		Timeout: s.policy.StartTimeout,
		Abort:   s.closing,
		Redact:  s.host.redactor.redact,
	})
	if err != nil {
		return nil, errors.Join(err, files.Close())
	}
	i := &instance{process: p, files: files, exitRecorded: make(chan struct{}), warnedOf: map[string]bool{}}
	ctx, cancel := context.WithTimeout(context.Background(), s.policy.StartTimeout)
	defer cancel()
	panics.Go(func() {
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	}, s.logPanic)
	d, err := p.Describe(ctx)
	if err == nil && (d.Name != entry.Name || string(d.Kind) != entry.Kind) {
		err = fmt.Errorf("the plugin describes itself as %.60q of kind %.60q, but the catalog has %q of kind %q", d.Name, d.Kind, entry.Name, entry.Kind)
	}
	if err == nil && options.Waits != nil {
		err = p.ShareWaits(ctx, pluginWaits{entry.Name, options.Waits})
	}
	if err != nil {
		i.dispose(0)
		return nil, p.ExplainExit(err)
	}
	i.description = d
	return i, nil
}

// dispose stops the process, kills it if it has not exited after the time grace, and closes its
// files.
func (i *instance) dispose(grace time.Duration) {
	i.process.Stop(grace)
	_ = i.files.Close() // if this fails, copies of the plugin's files can remain; they are not secret
}

// pluginWaits is the part of a store of waits that belongs to one plugin.
type pluginWaits struct {
	plugin string
	store  ports.Waits
}

// Wait implements ports.Waits.
func (w pluginWaits) Wait(ctx context.Context, scope string, atLeast time.Duration) time.Duration {
	return w.store.Wait(ctx, w.plugin+":"+scope, atLeast)
}

// isDraining reports whether the process was replaced or its plugin was removed. The caller holds
// the mutex of the supervisor.
func (i *instance) isDraining() bool { return i.drained != nil }

func (i *instance) hasExited() bool {
	select {
	case <-i.process.Exited():
		return true
	default:
		return false
	}
}

// allowedVariables are the variables of the host's environment that a plugin may receive. They
// configure the export of spans, the trusted certificate authorities and the time zone. Other
// variables are not passed, because they may contain secrets.
var allowedVariables = []string{
	"OTEL_BSP_EXPORT_TIMEOUT",
	"OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
	"OTEL_BSP_MAX_QUEUE_SIZE",
	"OTEL_BSP_SCHEDULE_DELAY",
	"OTEL_EXPORTER_OTLP_CERTIFICATE",
	"OTEL_EXPORTER_OTLP_COMPRESSION",
	"OTEL_EXPORTER_OTLP_ENDPOINT",
	"OTEL_EXPORTER_OTLP_PROTOCOL",
	"OTEL_EXPORTER_OTLP_TIMEOUT",
	"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
	"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
	"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
	"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
	"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
	"OTEL_RESOURCE_ATTRIBUTES",
	"OTEL_SDK_DISABLED",
	"OTEL_TRACES_EXPORTER",
	"OTEL_TRACES_SAMPLER",
	"OTEL_TRACES_SAMPLER_ARG",
	"SSL_CERT_FILE",
	"TZ",
}

// headerValues returns the values of the headers, as they are written and with percent-encoding
// decoded. headers has the form of OTEL_EXPORTER_OTLP_HEADERS: name=value, separated by commas.
func headerValues(headers secret.Text) (values []secret.Text) {
	for header := range strings.SplitSeq(headers.Reveal(), ",") {
		_, value, _ := strings.Cut(header, "=")
		values = append(values, secret.New(value))
		if decoded, err := url.PathUnescape(value); err == nil {
			values = append(values, secret.New(decoded))
		}
	}
	return values
}

// pluginEnvironment returns the environment of a plugin's process. The headers of the span exporter
// can contain credentials. They come only from telemetryHeaders, never from hostEnv.
func pluginEnvironment(name string, hostEnv []string, telemetryHeaders secret.Text) []string {
	var env []string
	for _, variable := range hostEnv {
		key, value, _ := strings.Cut(variable, "=")
		for _, allowed := range allowedVariables {
			// A URL with "@" can contain a password.
			if key == allowed && !strings.Contains(value, "@") {
				env = append(env, variable)
			}
		}
	}
	env = append(env, wire.SearchPath, "OTEL_SERVICE_NAME=tenantry-plugin-"+name)
	if !telemetryHeaders.Empty() {
		env = append(env, "OTEL_EXPORTER_OTLP_HEADERS="+telemetryHeaders.Reveal())
	}
	return env
}
