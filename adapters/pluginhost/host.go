// SPDX-License-Identifier: Apache-2.0

// Package pluginhost starts, watches and stops plugin processes. To the rest
// of tenantry a plugin is an ordinary port.
package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// Options say where the plugins are and what they get.
type Options struct {
	// Dir is the plugin folder with its catalog; "" is the folder `plugins`
	// beside the running program.
	Dir string
	// Log takes what the host and its plugins have to say.
	Log *slog.Logger
	// Env is the host's environment, as os.Environ gives it. Plugins get
	// the few variables of it that are on the allow-list.
	Env []string
	// TelemetryHeaders go to plugins as OTEL_EXPORTER_OTLP_HEADERS.
	TelemetryHeaders secret.Text
	// Patience says how long the host waits for what; zero values are the
	// defaults.
	Patience Patience
}

// Host runs the plugins of one folder. All methods are safe for concurrent
// use.
type Host struct {
	options  Options
	redactor redactor
	plugins  map[string]*supervised
}

// New reads the catalog. Plugins start on first use.
func New(o Options) (*Host, error) {
	if o.Dir == "" {
		dir, err := besideBinary()
		if err != nil {
			return nil, err
		}
		o.Dir = dir
	}
	o = o.orDefaults()
	entries, err := readCatalog(o.Dir)
	if err != nil {
		return nil, err
	}
	h := &Host{options: o, plugins: make(map[string]*supervised, len(entries))}
	for _, e := range entries {
		h.plugins[e.Name] = newSupervised(h, e)
	}
	return h, nil
}

func (o Options) orDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Patience = o.Patience.orDefaults()
	return o
}

// Mail is the mail platform of the plugin with this name. connection is asked
// at each call; its error is the call's.
func (h *Host) Mail(name string, connection func(context.Context) (wire.Connection, error)) ports.MailPlatform {
	return wire.Mail(h.opener(name, connection))
}

// DNS is the DNS provider of the plugin with this name, as the connection
// reaches it, which is asked at each call as in Mail.
func (h *Host) DNS(name string, connection func(context.Context) (wire.Connection, error)) ports.DNSProvider {
	return wire.DNS(h.opener(name, connection))
}

// Sending is the sending platform of the plugin with this name, as the
// connection reaches it, which is asked at each call as in Mail.
func (h *Host) Sending(name string, connection func(context.Context) (wire.Connection, error)) ports.SendingPlatform {
	return wire.Sending(h.opener(name, connection))
}

func (h *Host) opener(name string, connection func(context.Context) (wire.Connection, error)) wire.Opener {
	return func(ctx context.Context, secrets ...secret.Text) (wire.Session, error) {
		p, ok := h.plugins[name]
		if !ok {
			return wire.Session{}, down("plugin_missing", 0)
		}
		c, err := connection(ctx)
		if err != nil {
			return wire.Session{}, err
		}
		l, err := p.acquire(ctx)
		if err != nil {
			return wire.Session{}, err
		}
		return h.session(p, l, c, secrets), nil
	}
}

func (h *Host) session(p *supervised, l *life, c wire.Connection, secrets []secret.Text) wire.Session {
	for _, s := range c.Secrets {
		secrets = append(secrets, s)
	}
	release := h.redactor.hold(secrets)
	return wire.Session{Process: l.process, Connection: c, Done: func(err error) {
		release()
		p.ended(l, err)
	}}
}

// Describe asks a plugin who it is and what it needs; it starts the plugin.
func (h *Host) Describe(ctx context.Context, name string) (wire.Description, error) {
	p, ok := h.plugins[name]
	if !ok {
		return wire.Description{}, fmt.Errorf("there is no plugin %q in the catalog", name)
	}
	l, err := p.acquire(ctx)
	if err != nil {
		return wire.Description{}, errors.Join(err, p.status().LastError)
	}
	return l.description, nil
}

// Names lists the plugins of a kind by the catalog, sorted. None is started.
func (h *Host) Names(kind wire.Kind) []string {
	var names []string
	for name, p := range h.plugins {
		if p.entry.Kind == string(kind) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Kill kills a plugin's process with SIGKILL, as a crash would. The next call
// starts it anew.
func (h *Host) Kill(name string) error {
	p, ok := h.plugins[name]
	if !ok {
		return fmt.Errorf("there is no plugin %q in the catalog", name)
	}
	p.kill()
	return nil
}

// Status says how each plugin of the catalog is, by name.
func (h *Host) Status() []Status {
	var all []Status
	for _, p := range h.plugins {
		all = append(all, p.status())
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Close ends all plugins and leaves no process behind. Calls under way are
// cut off; later ones are answered with Down.
func (h *Host) Close() {
	var wait sync.WaitGroup
	for _, p := range h.plugins {
		wait.Go(p.close)
	}
	wait.Wait()
}
