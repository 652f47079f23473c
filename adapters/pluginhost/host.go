// SPDX-License-Identifier: Apache-2.0

// Package pluginhost starts, supervises and stops plugin processes. The rest of tenantry calls a
// plugin through an ordinary port and does not see the process.
//
// Start with Host: New reads the catalog, and Mail, DNS and Sending return ports whose calls go to
// the plugin's process. The first call to a plugin starts its process.
//
//   - host.go: Host, its options and the supervision policy. Start here.
//   - supervise.go: supervisor, which starts and restarts the process of one plugin.
//   - launch.go: instance, one process, and its environment.
//   - reload.go: Reload and Watch, which apply changes of the catalog while the host runs.
//   - status.go: Status, the state of a plugin for metrics and operators.
//   - output.go, redact.go: the output of plugins, made safe for the log.
//   - catalog.go: the catalog, the list of plugins that may run.
//   - add.go: Add, Upgrade and Remove, which change the catalog for an operator. lock_unix.go: the
//     lock that serializes their changes. lock_other.go: systems without this lock.
//   - inspect.go: Inspect, which checks the plugins of the catalog.
//   - overlay.go: Overlay, which makes a plugin folder with links to the plugins of a different
//     folder.
//
// Package verified checks the files of a plugin.
package pluginhost

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// Options configure a Host.
type Options struct {
	// Dir is the plugin folder with its catalog. If Dir is empty, New and Inspect use the folder
	// `plugins` next to the running program. Add and Upgrade need Dir.
	Dir string
	// Log receives the messages of the host and the output of its plugins. The default discards
	// them.
	Log *slog.Logger
	// Env is the host's environment in the format of os.Environ. Plugins receive only the variables
	// of an allow-list from it.
	Env []string
	// TelemetryHeaders is the value of OTEL_EXPORTER_OTLP_HEADERS in the environment of plugins.
	// The values of the headers are removed from the output of plugins.
	TelemetryHeaders secret.Text
	// Waits stores the waits that providers demand with Retry-After. All processes of a plugin that
	// use the same store share the plugin's waits. If Waits is nil, each process knows only its own
	// waits.
	Waits ports.Waits
	// Limits limit the resources of each plugin process.
	Limits wire.Limits
	// Supervision has the timeouts and restart limits. Zero values mean the defaults.
	Supervision SupervisionPolicy
}

// SupervisionPolicy has the timeouts and the restart limits of plugin processes.
type SupervisionPolicy struct {
	// StartTimeout limits the start of a plugin until it is healthy. The request for its
	// description has the same limit. The default is 30 s, because a start on a busy machine can
	// take several seconds.
	StartTimeout time.Duration
	// PingTimeout limits a health check after the start. The default is 1 s.
	PingTimeout time.Duration
	// StopGrace is the time that a plugin has to exit before it is killed. The default is 2 s.
	StopGrace time.Duration
	// Backoff is the delay after the first failure (see Status). The delay doubles with each
	// further failure in a row, until the crash loop. The default is 200 ms.
	Backoff time.Duration
	// Cooldown is the delay between start attempts in a crash loop. The default is 1 min.
	Cooldown time.Duration
	// CrashLimit is how many failures in a row make a crash loop. The default is 5.
	CrashLimit int
	// DrainTimeout is how long the process of a replaced or removed plugin may take to finish its
	// calls. Then the process is stopped, and calls in progress fail. The default is 30 s.
	DrainTimeout time.Duration
	// UsageInterval is the minimum time between two checks of how many processes and open files a
	// plugin uses. A check runs at the end of a call. The default is 10 s.
	UsageInterval time.Duration
	// MaxTimeouts is how many consecutive calls must end at their deadline before the host kills a
	// plugin that fails its health check. The default is 3.
	MaxTimeouts int
}

func (p SupervisionPolicy) withDefaults() SupervisionPolicy {
	return SupervisionPolicy{
		StartTimeout:  cmp.Or(p.StartTimeout, 30*time.Second),
		PingTimeout:   cmp.Or(p.PingTimeout, time.Second),
		StopGrace:     cmp.Or(p.StopGrace, 2*time.Second),
		Backoff:       cmp.Or(p.Backoff, 200*time.Millisecond),
		Cooldown:      cmp.Or(p.Cooldown, time.Minute),
		CrashLimit:    cmp.Or(p.CrashLimit, 5),
		DrainTimeout:  cmp.Or(p.DrainTimeout, 30*time.Second),
		UsageInterval: cmp.Or(p.UsageInterval, 10*time.Second),
		MaxTimeouts:   cmp.Or(p.MaxTimeouts, 3),
	}
}

// restartDelay returns the delay before the next start, and whether the plugin is in a crash loop.
// failures is the number of failures in a row, at least 1.
func (p SupervisionPolicy) restartDelay(failures int) (delay time.Duration, crashLoop bool) {
	if failures >= p.CrashLimit {
		return p.Cooldown, true
	}
	return p.Backoff << (failures - 1), false
}

// Host runs the plugins of one plugin folder. Its methods are safe for concurrent use.
type Host struct {
	options  Options
	redactor redactor
	plugins  map[string]*supervisor // by the plugin's name, filled by New

	reloadMu    sync.Mutex        // held while Reload runs, guards lastReadSum
	lastReadSum [sha256.Size]byte // the checksum of the catalog that New or the last Reload read

	onChangeMu sync.Mutex
	onChange   []func(name string)
}

// New returns a host for the plugins of the catalog. It starts no process. It fails when the
// catalog is missing or invalid.
func New(options Options) (*Host, error) {
	if options.Dir == "" {
		dir, err := defaultPluginDir()
		if err != nil {
			return nil, err
		}
		options.Dir = dir
	}
	options = options.withDefaults()
	sum := catalogSum(options.Dir)
	entries, err := readCatalog(options.Dir)
	if err != nil {
		return nil, err
	}
	h := &Host{options: options, lastReadSum: sum, plugins: make(map[string]*supervisor, len(entries))}
	h.redactor.holdSecrets(headerValues(options.TelemetryHeaders)) // until the host ends
	for _, e := range entries {
		h.plugins[e.Name] = newSupervisor(h, e)
	}
	return h, nil
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Supervision = o.Supervision.withDefaults()
	return o
}

// Mail returns the mail platform of the plugin with this name. Each call passes the interceptors,
// the first of which is the outermost, and is then sent to the plugin. buildConnection returns the
// settings and secrets of one call. If it fails, the call fails with the same error.
func (h *Host) Mail(name string, buildConnection func(context.Context) (wire.Connection, error), interceptors ...wire.Interceptor) ports.MailPlatform {
	return wire.MailClient(h.opener(name, buildConnection), interceptors...)
}

// DNS returns the DNS provider of the plugin with this name, for one DNS connection of an account.
// For the parameters see Mail.
func (h *Host) DNS(name string, buildConnection func(context.Context) (wire.Connection, error), interceptors ...wire.Interceptor) ports.DNSProvider {
	return wire.DNSClient(h.opener(name, buildConnection), interceptors...)
}

// Sending returns the sending platform of the plugin with this name, for one credential. For the
// parameters see Mail.
func (h *Host) Sending(name string, buildConnection func(context.Context) (wire.Connection, error), interceptors ...wire.Interceptor) ports.SendingPlatform {
	return wire.SendingClient(h.opener(name, buildConnection), interceptors...)
}

func (h *Host) opener(name string, buildConnection func(context.Context) (wire.Connection, error)) wire.Opener {
	return func(ctx context.Context, callSecrets ...secret.Text) (wire.Session, error) {
		s, ok := h.plugins[name]
		if !ok {
			return wire.Session{}, downError("plugin_missing", 0)
		}
		c, err := buildConnection(ctx)
		if err != nil {
			return wire.Session{}, err
		}
		running, err := s.acquire(ctx)
		if err != nil {
			return wire.Session{}, err
		}
		return h.session(s, running, c, callSecrets), nil
	}
}

// session returns the session of one call. During the call and for at least holdAfterCall after it,
// the redactor removes the secrets of the connection and of the call from the output of plugins.
func (h *Host) session(s *supervisor, i *instance, c wire.Connection, callSecrets []secret.Text) wire.Session {
	for _, value := range c.Secrets {
		callSecrets = append(callSecrets, value)
	}
	release := h.redactor.holdSecrets(callSecrets)
	return wire.Session{Process: i.process, Connection: c, Done: func(err error) {
		release()
		s.callEnded(i, err)
	}}
}

// Describe returns a plugin's description of itself and starts the plugin if necessary. It fails
// when the catalog has no such plugin, when the plugin cannot be started, and when the host is
// closed. The error of a failed start includes the reason.
func (h *Host) Describe(ctx context.Context, name string) (wire.Description, error) {
	s, ok := h.plugins[name]
	if !ok {
		return wire.Description{}, fmt.Errorf("there is no plugin %q in the catalog", name)
	}
	running, err := s.acquire(ctx)
	if err != nil {
		return wire.Description{}, errors.Join(err, s.status().LastError)
	}
	defer s.release(running)
	return running.description, nil
}

// OnChange makes the host call f with the name of a plugin each time the host changes to a
// different version of the plugin, whose description may differ. f must not call the host.
func (h *Host) OnChange(f func(name string)) {
	h.onChangeMu.Lock()
	defer h.onChangeMu.Unlock()
	h.onChange = append(h.onChange, f)
}

func (h *Host) reportChange(name string) {
	h.onChangeMu.Lock()
	defer h.onChangeMu.Unlock()
	for _, f := range h.onChange {
		f(name)
	}
}

// Names returns the names of the host's plugins of a kind, sorted, without removed plugins. It
// starts no plugin.
func (h *Host) Names(kind wire.Kind) []string {
	var names []string
	for name, s := range h.plugins {
		if s.kind == string(kind) && !s.isRemoved() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Kill kills a plugin's process with SIGKILL, and the next call starts a new process. The host does
// not count this as a failure (see Status). Kill fails when the host has no such plugin.
func (h *Host) Kill(name string) error {
	s, ok := h.plugins[name]
	if !ok {
		return fmt.Errorf("there is no plugin %q in the catalog", name)
	}
	s.kill()
	return nil
}

// Status returns the status of the host's plugins, sorted by name, without removed plugins.
func (h *Host) Status() []Status {
	var statuses []Status
	for _, s := range h.plugins {
		if !s.isRemoved() {
			statuses = append(statuses, s.status())
		}
	}
	slices.SortFunc(statuses, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return statuses
}

// Close stops all plugins and waits until their processes have exited. Calls in progress can fail.
// Later calls fail with an error of kind outcome.Down.
func (h *Host) Close() {
	var group panics.Group
	for _, s := range h.plugins {
		group.Go(s.close)
	}
	group.Wait()
}
