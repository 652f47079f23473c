// SPDX-License-Identifier: Apache-2.0

// Package settings reads the settings of tenantry from all sources and checks them.
//
//   - settings.go: Config, which has a field for each setting. The tags of the field contain the
//     setting's name, default and help text. Start here.
//   - load.go: Load merges defaults, tenantry.yaml, TENANTRY_… variables and flags.
//   - check.go: Check and Problems, which refuse invalid values.
//   - values.go: checkValues, which refuses values that do not have the type of their setting.
//   - unknown.go: detects names that are not settings, and suggests similar settings.
//
// This package cannot check the settings of a provider, because the provider's plugin defines them.
package settings

import (
	"cmp"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tenantry/tenantry/app/cli"
)

// Config holds the value of every setting. Later sources override earlier ones: defaults,
// tenantry.yaml, TENANTRY_… variables, flags.
type Config struct {
	Listen      string `koanf:"listen" group:"Addresses" default:"127.0.0.1:8080" help:"address of the API and the HTML pages"`
	AdminListen string `koanf:"admin_listen" default:"127.0.0.1:9090" help:"address of /metrics, /livez and /readyz"`
	PublicURL   string `koanf:"public_url" help:"URL at which browsers reach the API, without a final slash; http://LISTEN unless set, or https://LISTEN with a TLS certificate"`

	TLSCertificateFile string   `koanf:"tls_certificate_file" help:"PEM file with the certificate chain for listen. With it, the service itself serves TLS 1.2 or later. A replaced file is used from the next connection on"`
	TLSKeyFile         string   `koanf:"tls_key_file" help:"PEM file with the private key of tls_certificate_file"`
	TrustedProxies     []string `koanf:"trusted_proxies" help:"addresses or CIDR ranges of proxies; none unless set. The client of a request through such a proxy has the address that X-Forwarded-For names. The service uses this address in the log and the audit log, for API keys that are limited to networks, and for the share of max_in_flight that one address gets. Without trusted proxies, all clients behind a proxy have the address of the proxy, and share what max_in_flight and max_connections allow one address. No other forwarded header is read"`

	DataDir      string        `koanf:"data_dir" group:"Storage" default:"./tenantry-data" help:"folder of the embedded database and the keyset"`
	DatabaseURL  string        `koanf:"database_url" secret:"url" help:"sqlite:///path or postgres://…; a SQLite file in the data folder unless set"`
	KeysetFile   string        `koanf:"keyset_file" help:"the keyset that encrypts stored secrets; keyset.json in the data folder unless set"`
	RedisURL     string        `koanf:"redis_url" secret:"url" help:"redis://host:6379/0 or rediss://…, where replicas count rate limits together; unless set, each process counts on its own"`
	RedisTimeout time.Duration `koanf:"redis_timeout" default:"200ms" help:"timeout for Redis; after that the process counts on its own until Redis answers again"`
	Limits       string        `koanf:"limits" default:"on" help:"whether the rate limits refuse requests: on or off. With off, requests are only counted; for benchmarks"`
	MaxInFlight  int           `koanf:"max_in_flight" default:"1000" help:"maximum number of requests that a process handles at once; further requests are answered with 503. One account gets at most half of them. The connect pages get at most a quarter, and one address at most half of that. Requests with an API key that the process has not accepted yet get at most half, and one address at most half of that"`
	// MaxConnections bounds the memory that clients without a key can take: about 35 KiB a
	// connection.
	MaxConnections int `koanf:"max_connections" default:"10000" help:"maximum number of connections that a process has open for listen. One address gets at most half of them, unless it is one of trusted_proxies. If a new connection exceeds the maximum, the service closes a connection of the address that has the most connections: the connection that has waited longest for its client. At most half of the files that the system allows the process to open are used for connections"`

	PluginDir string `koanf:"plugin_dir" group:"Service" help:"folder of the provider plugins and their catalog; unless set, the folder plugins in the folder of the binary"`

	PluginMemoryMiB int `koanf:"plugin_memory_mib" default:"1024" help:"how many MiB of memory each process of a plugin may use; 0 sets no limit. A process that needs more ends, and the next call starts the plugin again"`
	PluginProcesses int `koanf:"plugin_processes" default:"512" help:"how many processes and threads a plugin may start. Linux counts all processes of the service's user: the limit is this number plus those that exist when the plugin starts. 0 sets no limit. Linux does not enforce the limit for root. In a container no limit is set, because Linux would also count the processes that other containers run with the same user id"`
	PluginOpenFiles int `koanf:"plugin_open_files" default:"1024" help:"how many files and connections each process of a plugin may have open; 0 sets no limit"`

	KeyPrefix string `koanf:"key_prefix" default:"tny" help:"first part of API keys: 1 to 64 letters, digits and characters of ._~+/=:@-"`
	LogLevel  string `koanf:"log_level" default:"info" help:"debug, info, warn or error"`
	Worker    bool   `koanf:"worker" default:"true" help:"run the background jobs, for example DNS provisioning and checks, refreshes of integrations, send limits, webhooks, and the deletion of old data. With false, this process only answers requests and leaves the jobs to other processes on the same database"`
	Operator  string `koanf:"operator" help:"name of the operator in the audit log; the system's user and host unless set"`

	DrainTime  time.Duration `koanf:"drain_time" group:"Stopping" default:"25s" help:"how long a stop may take. Requests that are still in progress 3 s before its end are aborted. If it is shorter than 6 s, they are aborted after half of it"`
	DrainDelay time.Duration `koanf:"drain_delay" default:"1s" help:"the first part of drain_time: new requests are still accepted while /readyz answers 503, so that load balancers notice"`

	DNSResolvers    []string `koanf:"dns_resolvers" group:"DNS" help:"recursive resolvers, addresses with ports; those of the system unless set"`
	DNSMode         string   `koanf:"dns_mode" default:"authoritative" help:"with authoritative, the service asks the name servers of each domain directly. With recursive, it asks only dns_resolvers, for networks where no other servers can be reached; no read then counts as reliable, and no DNS is written"`
	DNSPort         int      `koanf:"dns_port" default:"53" help:"port of authoritative servers"`
	DNSAllowPrivate bool     `koanf:"dns_allow_private" help:"also query authoritative servers on private addresses; for sandboxes"`
	DMARCRecord     string   `koanf:"dmarc_record" default:"v=DMARC1; p=none" help:"DMARC record that is planned for a domain without one, for example with an address for reports: v=DMARC1; p=none; rua=mailto:dmarc@example.com. An existing record is never changed"`

	DomainChecks bool `koanf:"domain_checks" default:"true" help:"read the DNS of each verified domain again about once a day, to notice changes; with false, the DNS is read only for requests and provisioning jobs"`

	TraceCustomerData bool `koanf:"trace_customer_data" group:"Telemetry" help:"add tenant GUIDs, domains and mailbox addresses, which are customer data, to spans; metrics and the log never contain them"`
	// PluginOTLPHeaders is separate from OTEL_EXPORTER_OTLP_HEADERS, so that plugins get the
	// credential of the collector only if the operator decides so.
	PluginOTLPHeaders string `koanf:"plugin_otlp_headers" secret:"text" help:"headers with which plugins export their spans, in the form of OTEL_EXPORTER_OTLP_HEADERS: name=value, with commas between several; for a collector that requires a credential. Plugins do not get OTEL_EXPORTER_OTLP_HEADERS of the service. All plugins can read the headers"`

	MailPlatform string `koanf:"mail_platform" group:"Mail platform" default:"microsoft365" help:"name of the plugin of the mail platform. All tenants are tenants of this platform. Set it before the first tenant is connected"`

	CircuitOpen time.Duration `koanf:"circuit_open" default:"30s" help:"how long calls to a repeatedly failing provider are rejected before the provider is tried again"`

	RequireSMTPAuth bool `koanf:"require_smtp_auth" default:"true" help:"refuse to provision mailboxes if SMTP AUTH is disabled for the organization"`

	WebhooksAllowPrivate bool `koanf:"webhooks_allow_private" group:"Webhooks" help:"let webhooks send to private and special addresses, and over http to loopback; for sandboxes. With false, a customer cannot reach your internal network with a webhook"`

	KeepEventsDays int `koanf:"keep_events_days" group:"Send limits" default:"730" help:"how many whole days (UTC) enforcement events are kept; 0 keeps them forever"`

	KeepLogDays int `koanf:"keep_log_days" group:"Events" default:"30" help:"how many whole days (UTC) the events of GET /v1/events are kept; 0 keeps them forever. The deliveries of webhooks are kept as long"`

	KeepAuditDays int `koanf:"keep_audit_days" group:"Audit" default:"400" help:"how many whole days (UTC) the audit entries of accounts are kept; 0 keeps them forever"`

	// Providers maps the id of a provider to its settings: the variable
	// TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_ID sets providers.microsoft365.client_id.
	Providers map[string]map[string]string `koanf:"providers" help:"settings of the providers; each plugin describes its own"`
}

// AddFlags adds the flag --config, and a flag for each setting except the settings of providers.
func (Config) AddFlags(flags *pflag.FlagSet) {
	flags.String("config", "", "settings file; tenantry.yaml in the working directory is read when it exists")
	for field := range Fields() {
		if field.Type.Kind() == reflect.Map {
			continue
		}
		help := field.Tag.Get("help")
		if value, ok := field.Tag.Lookup("default"); ok {
			help += " (default " + value + ")"
		}
		flags.String(FlagName(field), "", help)
		_ = flags.SetAnnotation(FlagName(field), cli.SettingAnnotation, nil)
	}
	_ = flags.SetAnnotation("config", cli.SettingAnnotation, nil)
}

// Fields iterates over the fields of Config. Each field except Providers is a setting.
func Fields() iter.Seq[reflect.StructField] {
	return slices.Values(reflect.VisibleFields(reflect.TypeFor[Config]()))
}

// FlagName returns the name of a setting's flag, without the leading --.
func FlagName(field reflect.StructField) string {
	return strings.ReplaceAll(field.Tag.Get("koanf"), "_", "-")
}

// withDerivedDefaults sets the settings whose default depends on other settings or on this machine.
// It also removes the final slashes of public_url, and the slashes of a SQLite database_url after
// the third.
func (c Config) withDerivedDefaults() (Config, error) {
	if c.DatabaseURL == "" {
		data, err := filepath.Abs(c.DataDir)
		if err != nil {
			return c, err
		}
		c.DatabaseURL = "sqlite://" + filepath.Join(data, "tenantry.db")
	}
	if path, ok := strings.CutPrefix(c.DatabaseURL, "sqlite:////"); ok { // other tools write an absolute path in this form
		c.DatabaseURL = "sqlite:///" + strings.TrimLeft(path, "/")
	}
	if c.KeysetFile == "" {
		c.KeysetFile = filepath.Join(c.DataDir, "keyset.json")
	}
	if c.PluginDir == "" {
		program, err := os.Executable()
		if err != nil {
			return c, err
		}
		if resolved, err := filepath.EvalSymlinks(program); err == nil {
			program = resolved
		}
		c.PluginDir = filepath.Join(filepath.Dir(program), "plugins")
	}
	c.Operator = cmp.Or(c.Operator, currentOperator())
	c.PublicURL = strings.TrimRight(c.PublicURL, "/")
	return c, nil
}

// currentOperator returns the operator as user@host. Under sudo, the user is the one who called
// sudo.
func currentOperator() string {
	name := os.Getenv("SUDO_USER")
	if name == "" {
		name = "uid " + strconv.Itoa(os.Getuid()) // in a container without a user database
		if current, err := user.Current(); err == nil {
			name = current.Username
		}
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// Level returns the log level. It cannot fail, because Load has checked log_level.
func (c Config) Level() slog.Level {
	level, _ := logLevel(c.LogLevel)
	return level
}

func logLevel(name string) (level slog.Level, err error) {
	if level.UnmarshalText([]byte(name)) != nil || strings.ContainsAny(name, "+-") { // UnmarshalText accepts "info+2"
		err = fmt.Errorf("%q is not debug, info, warn or error", name)
	}
	return level, err
}
