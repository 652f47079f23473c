// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/sandbox"
	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/app/server"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dnsconnection"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/secret"
)

// sandboxCountsTTL is how long the gauges of a sandbox reuse counts that they read from the
// database. It is short, because the jobs of a sandbox end within seconds.
const sandboxCountsTTL = time.Second

// devOptions holds the flags of `tenantry dev`.
type devOptions struct {
	listen, control string
	data, database  string
	redis, limits   string
	plugin          string
	noSeed, json    bool

	printText func(string) // prints a text for the user; does nothing with --json
}

func devCommand() *cobra.Command {
	var o devOptions
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Start the sandbox: the service and simulated providers, on loopback",
		Long: "Starts the service with simulated providers, seeds an account, and prints all addresses.\n" +
			"All data is kept in one folder. A sandbox that is started again with the same folder continues with its data.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.json = o.json || cli.WantsJSON(cmd)
			o.printText = func(text string) {
				if !o.json {
					_, _ = fmt.Fprint(cmd.OutOrStdout(), text)
				}
			}
			if !cmd.Flags().Changed("control") && strings.HasSuffix(o.listen, ":0") {
				o.control = "127.0.0.1:0" // several sandboxes may run on this machine
			}
			c, err := devConfig(o)
			if err != nil {
				return cli.UsageError(err)
			}
			if o.json {
				return runSandbox(cmd.Context(), c, o, telemetry.NewLogger(cmd.ErrOrStderr(), c.Level()), func(r sandbox.Ready) {
					_ = json.NewEncoder(cmd.OutOrStdout()).Encode(r)
				})
			}
			log, closeLog, err := devLog(c, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer func() { _ = closeLog() }()
			return runSandbox(cmd.Context(), c, o, log, func(r sandbox.Ready) { printWelcome(cmd.OutOrStdout(), r, o) })
		},
	}
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:8080", "address of the API; port 0 selects a free port")
	cmd.Flags().StringVar(&o.control, "control", "127.0.0.1:8081",
		"address of the control interface; if the port is taken, a free port is used. With --listen HOST:0 the default is a free port")
	cmd.Flags().StringVar(&o.data, "data", "./tenantry-dev", "folder for all data")
	cmd.Flags().StringVar(&o.database, "database", "", "postgres://… instead of SQLite in the data folder")
	cmd.Flags().StringVar(&o.redis, "redis", "", "redis://… that counts the rate limits; by default the setting redis_url")
	cmd.Flags().StringVar(&o.limits, "limits", "", "off lifts the rate limits: requests are counted, but none is refused")
	cmd.Flags().StringVar(&o.plugin, "plugin", "", "run the plugin of this `folder` with its simulator, and use each new build of the plugin at once")
	cmd.Flags().BoolVar(&o.noSeed, "no-seed", false, "create no zones and tenants, only the account and its key")
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON line when ready, and write the log to standard error; also with --output json")
	_ = cmd.RegisterFlagCompletionFunc("limits", cobra.FixedCompletions([]string{"off"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if o.limits != "" && o.limits != "off" {
			return cli.UsageError(fmt.Errorf("--limits must be off, not %q", o.limits))
		}
		return nil
	}
	return cmd
}

// devConfig returns the settings of a sandbox. It replaces four defaults. Circuit breakers stay
// open for only 2 s, because users of a sandbox often cause failures on purpose. A stop has no
// drain_delay, because no load balancer sends requests to a sandbox. The service stops within 20 s,
// which leaves time to stop the simulators after it. Webhooks may send to this machine. The
// settings file and variables override these four values. The addresses and the storage come from
// the flags of dev.
func devConfig(o devOptions) (settings.Config, error) {
	c, err := settings.Load(pflag.NewFlagSet("dev", pflag.ContinueOnError), map[string]any{"circuit_open": "2s", "drain_delay": "0s", "drain_time": "20s", "webhooks_allow_private": true})
	if err != nil {
		return c, err
	}
	data, err := filepath.Abs(o.data)
	if err != nil {
		return c, err
	}
	c.Listen, c.DataDir, c.KeysetFile = o.listen, data, filepath.Join(data, "keyset.json")
	c.DatabaseURL = "sqlite://" + filepath.Join(data, "tenantry.db")
	if o.database != "" {
		c.DatabaseURL = o.database
	}
	c.RedisURL, c.Limits = cmp.Or(o.redis, c.RedisURL), cmp.Or(o.limits, c.Limits)
	for _, listener := range [][2]string{{"listen", o.listen}, {"control", o.control}} {
		host, _, err := net.SplitHostPort(listener[1])
		if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return c, fmt.Errorf("--%s must be a loopback address with a port, not %q: the sandbox listens on loopback only", listener[0], listener[1])
		}
	}
	return c, c.Check()
}

// devLogFile is the name of the log in the data folder.
const devLogFile = "log.json"

// devLog returns the logger of a sandbox without --json, and the function that closes the log file.
// The file in the data folder gets all records from the configured level up. The terminal gets only
// warnings and errors, because each request writes a record.
func devLog(c settings.Config, terminal io.Writer) (*slog.Logger, func() error, error) {
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return nil, nil, err
	}
	file, err := os.OpenFile(filepath.Join(c.DataDir, devLogFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	return slog.New(slog.NewMultiHandler(
		telemetry.NewLogger(file, c.Level()).Handler(), telemetry.NewLogger(terminal, max(c.Level(), slog.LevelWarn)).Handler(),
	)), file.Close, nil
}

// runSandbox starts the simulators, then the service that uses them, and serves until ctx ends. It
// calls ready once the API accepts requests. If ctx ends before that, it returns nil.
func runSandbox(ctx context.Context, c settings.Config, o devOptions, log *slog.Logger, ready func(sandbox.Ready)) error {
	return server.AllowStopDuringStart(ctx, log, func(started func()) error {
		return startSandbox(ctx, c, o, log, func(r sandbox.Ready) {
			started()
			ready(r)
		})
	})
}

// startSandbox does the work of runSandbox. Unlike runSandbox, it can return an error if ctx ends
// before it calls ready.
func startSandbox(ctx context.Context, c settings.Config, o devOptions, log *slog.Logger, ready func(sandbox.Ready)) error {
	release, err := server.Lock(filepath.Join(c.DataDir, "sandbox"))
	if err != nil {
		return err
	}
	defer func() { _ = release() }()
	var plugin *pluginUnderDevelopment
	pluginName := ""
	if o.plugin != "" {
		folder := filepath.Join(c.DataDir, "plugins")
		if plugin, err = openPlugin(ctx, o.plugin, c.PluginDir, pluginhost.Options{Dir: folder, Limits: wiring.PluginLimits(c)}); err != nil {
			return err
		}
		c.PluginDir, pluginName = folder, plugin.name
		if plugin.kind == kindMail {
			c.MailPlatform = plugin.name
		}
	}
	api, err := server.Listen(ctx, c.Listen)
	if err != nil {
		return err
	}
	admin, err := server.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, api.Close())
	}
	var watchers panics.Group
	watchCtx, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	environment, err := sandbox.Start(context.WithoutCancel(ctx), sandbox.Options{
		DataDir: c.DataDir, PluginDir: c.PluginDir, MailPlatform: c.MailPlatform, Plugin: pluginName, Seed: !o.noSeed, ControlAddr: o.control, Log: log,
	})
	if err != nil {
		return errors.Join(err, api.Close(), admin.Close())
	}
	err = serveSandbox(ctx, environment, c, log, api, admin, func(r sandbox.Ready, s *wiring.Service) {
		ready(r)
		if plugin != nil {
			onRebuild := useRebuilt(ctx, plugin, s.Host, environment.RestartSimulator, log, o.printText)
			watchers.Go(func() { plugin.watch(watchCtx, buildCheckInterval, onRebuild) })
		}
	})
	stopWatching()
	watchers.Wait()
	return errors.Join(err, environment.Close())
}

// serveSandbox runs the service with the simulators of a sandbox until ctx ends. It closes the
// listeners api and admin. It calls ready once the API accepts requests.
func serveSandbox(ctx context.Context, environment *sandbox.Environment, c settings.Config, log *slog.Logger, api, admin net.Listener, ready func(sandbox.Ready, *wiring.Service)) error {
	operatorSettings := map[string]map[string]string{}
	maps.Copy(operatorSettings, c.Providers)
	useSimulators(&c, environment)
	if strings.HasPrefix(c.DatabaseURL, "postgres") {
		if _, err := wiring.MigrateNow(ctx, c, log); err != nil {
			return errors.Join(err, api.Close(), admin.Close())
		}
	}
	url := "http://" + api.Addr().String()
	s, err := wiring.Assemble(ctx, c, log, url, wiring.Overrides{
		Now: environment.Now, Secrets: environment.Secrets(), JobRetryPolicy: wiring.SandboxJobRetryPolicy,
		CountsTTL: sandboxCountsTTL, OperatorSettings: operatorSettings, NameServers: sandbox.NameServers, OnlyTenantsWithLimits: true,
	})
	if err != nil {
		return errors.Join(err, api.Close(), admin.Close())
	}
	if err := s.FinishInterrupted(ctx, c.DatabaseURL); err != nil {
		return errors.Join(err, api.Close(), admin.Close(), s.Close(context.WithoutCancel(ctx)))
	}
	opened, err := environment.Open(ctx, sandbox.Services{
		Accounts: s.Store, Keys: s.Store, Consent: s.Platform, ManagedTenants: s.Tenants, ConnectDNS: connectDNS(s), Enforce: s.EnforceNow, WakeDueJobs: s.WakeDueJobs, KillPlugin: s.Host.Kill,
		APIURL: url, AdminURL: "http://" + admin.Addr().String(), KeyPrefix: c.KeyPrefix,
	})
	if err == nil {
		description, _ := s.Host.Describe(ctx, c.MailPlatform) // if the plugin cannot be described, its name replaces the title
		opened.MailPlatform = cmp.Or(description.Title, c.MailPlatform)
		err = writeEnv(c.DataDir, opened)
	}
	if err != nil {
		return errors.Join(err, api.Close(), admin.Close(), s.Close(context.WithoutCancel(ctx)))
	}
	return server.Run(ctx, s, api, admin, nil, func() { ready(opened, s) })
}

// useSimulators adds the settings with which the service calls the simulators. It does not replace
// DNS resolvers or provider settings that the operator has set. If the operator has set no DNS
// resolvers, it also sets dns_port, because all name servers of the sandbox listen on one port.
func useSimulators(c *settings.Config, environment *sandbox.Environment) {
	if len(c.DNSResolvers) == 0 {
		c.DNSResolvers, c.DNSPort, c.DNSAllowPrivate = []string{environment.DNSAddr()}, environment.DNSPort(), true
	}
	providers := environment.Settings()
	for provider, settings := range c.Providers {
		if providers[provider] == nil {
			providers[provider] = map[string]string{}
		}
		maps.Copy(providers[provider], settings)
	}
	c.Providers = providers
}

// writeEnv writes the file env, with the variables that a shell needs to call the API. Only its
// owner can read it, because it contains the API key. If the file already exists, writeEnv keeps
// the tenant that the file names. This tenant may be connected by now, and r lists only tenants
// that are not connected.
func writeEnv(folder string, r sandbox.Ready) error {
	tenant := ""
	if len(r.Tenants) > 0 {
		tenant = r.Tenants[0].TenantID
	}
	path := filepath.Join(folder, "env")
	previous, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(previous)) {
		if previousTenant, ok := strings.CutPrefix(strings.TrimSpace(line), "TENANTRY_TENANT="); ok {
			tenant = cmp.Or(previousTenant, tenant)
		}
	}
	text := fmt.Sprintf("TENANTRY_URL=%s\nTENANTRY_KEY=%s\nTENANTRY_CONTROL=%s\nTENANTRY_TENANT=%s\n", r.APIURL, r.APIKey, r.ControlURL, tenant)
	return os.WriteFile(path, []byte(text), 0o600)
}

// printWelcome prints the addresses of the sandbox, and what the user can try in it.
func printWelcome(out io.Writer, r sandbox.Ready, o devOptions) {
	control := r.ControlURL
	// Only the ports are compared, because the host of o.control can be a name.
	if _, port, _ := net.SplitHostPort(o.control); port != "0" && !strings.HasSuffix(control, ":"+port) {
		control += "  (" + o.control + " is taken; --control sets a different address)"
	}
	_, _ = fmt.Fprintf(out, `The sandbox is ready.

  API          %s
  API page     %s/docs
  API key      %s
  Control      %s
  DNS          %s
  Log          %s

In another terminal: . %s/env
Then, for example:   curl -H "Authorization: Bearer $TENANTRY_KEY" $TENANTRY_URL/v1/tenants

Tenants of %s that can be connected:
`, r.APIURL, r.APIURL, r.APIKey, control, r.DNSAddr, filepath.Join(o.data, devLogFile), o.data, r.MailPlatform)
	for _, t := range r.Tenants {
		_, _ = fmt.Fprintf(out, "  %s  %s  (%s)\n", t.TenantID, t.Name, t.Admin)
	}
	if len(r.Zones) > 0 {
		_, _ = fmt.Fprintf(out, "\nZones at %s, empty: %s … %s\nZones with old records, to try a plan on:\n", r.ZonesProvider, r.Zones[0], r.Zones[len(r.Zones)-1])
	}
	for _, zone := range r.MessyZones {
		_, _ = fmt.Fprintf(out, "  %-27s %s\n", zone.Name, zone.About)
	}
	for _, provider := range slices.Sorted(maps.Keys(r.PluginZones)) {
		_, _ = fmt.Fprintf(out, "Zones at %s, empty: %s\n", provider, strings.Join(r.PluginZones[provider], " "))
	}
	if len(r.Sending) > 0 {
		_, _ = fmt.Fprintln(out, "\nSending platforms, and the api_key for an integration with each:")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Sending)) {
		customer, _ := r.Sending[name].(map[string]any)
		_, _ = fmt.Fprintf(out, "  %-12s %v\n", name, customer["api_key"])
	}
	_, _ = fmt.Fprintln(out, "\nStop with Ctrl-C. After a restart, the sandbox continues with the same data.")
}

// connectDNS returns a function that connects an account to a simulated DNS provider, as an
// operator does. It does nothing if the account already has a connection to the provider.
func connectDNS(s *wiring.Service) func(context.Context, access.AccountID, string, secret.Credential) error {
	return func(ctx context.Context, owner access.AccountID, provider string, credential secret.Credential) error {
		existing, err := s.Connections.List(ctx, owner)
		if err != nil || slices.ContainsFunc(existing, func(c dnsconnection.Connection) bool { return c.Provider == provider }) {
			return err
		}
		description, err := s.Host.Describe(ctx, provider)
		if err != nil {
			return err
		}
		accountCredential := secret.Credential{Settings: map[string]string{}, Secrets: credential.Secrets}
		for _, field := range description.Fields {
			if value := credential.Settings[field.Name]; field.Account && value != "" {
				accountCredential.Settings[field.Name] = value
			}
		}
		_, err = s.Connections.Add(ctx, dnsconnections.NewConnection{Account: owner, Provider: provider, Name: "sandbox", Credential: accountCredential})
		return err
	}
}
