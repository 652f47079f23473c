// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Config is everything that can be set. It is read once, at start: defaults,
// then tenantry.yaml, then TENANTRY_… variables, then flags.
type Config struct {
	Listen      string `koanf:"listen" group:"Addresses" default:"127.0.0.1:8080" help:"address of the API and the pages for people"`
	AdminListen string `koanf:"admin_listen" default:"127.0.0.1:9090" help:"address of /metrics, /livez and /readyz"`
	PublicURL   string `koanf:"public_url" help:"where browsers reach the API, without a final slash; http://LISTEN unless set"`

	TLSCertificateFile string   `koanf:"tls_certificate_file" help:"PEM file with the certificate of listen and its chain: serve then speaks TLS itself, from version 1.2. A replaced file is used by the next connection"`
	TLSKeyFile         string   `koanf:"tls_key_file" help:"PEM file with the key of tls_certificate_file"`
	TrustedProxies     []string `koanf:"trusted_proxies" help:"addresses or CIDR ranges of proxies whose X-Forwarded-For names the client in the log; nobody's unless set. No other forwarded header is read"`

	DataDir     string `koanf:"data_dir" group:"Storage" default:"./tenantry-data" help:"folder of the embedded database and the keyset"`
	DatabaseURL string `koanf:"database_url" secret:"url" help:"sqlite:///path or postgres://…; a SQLite file in the data folder unless set"`
	KeysetFile  string `koanf:"keyset_file" help:"the keyset that seals stored secrets; keyset.json in the data folder unless set"`
	RedisURL    string `koanf:"redis_url" secret:"url" help:"redis://host:6379/0 or rediss://…, where replicas count rate limits together; each process counts by itself unless set"`
	Limits      string `koanf:"limits" default:"on" help:"off counts requests but refuses none; for benchmarks"`
	MaxInFlight int    `koanf:"max_in_flight" default:"1000" help:"how many requests a process works on at once; more are answered 503"`
	PluginDir   string `koanf:"plugin_dir" group:"Service" help:"folder of the provider plugins and their catalog; plugins beside the binary unless set"`
	KeyPrefix   string `koanf:"key_prefix" default:"tny" help:"first part of API keys"`
	LogLevel    string `koanf:"log_level" default:"info" help:"debug, info, warn or error"`
	Worker      bool   `koanf:"worker" default:"true" help:"do what happens by itself: provisioning, checks, refreshes, sweeps; false leaves that to other processes on the same database, and answers requests alone"`
	Operator    string `koanf:"operator" help:"who the audit says ran a command; the system's user and host unless set"`

	DrainTime  time.Duration `koanf:"drain_time" group:"Stopping" default:"25s" help:"how long a stop may take: requests under way may finish, what is left after it is cut off"`
	DrainDelay time.Duration `koanf:"drain_delay" default:"1s" help:"the part of drain_time in which new requests are still taken while /readyz says 503, so that load balancers notice"`

	DNSResolvers    []string `koanf:"dns_resolvers" group:"DNS" help:"recursive resolvers, addresses with ports; those of the system unless set"`
	DNSMode         string   `koanf:"dns_mode" default:"authoritative" help:"authoritative asks the name servers of each domain themselves; recursive asks dns_resolvers for everything, where no others can be reached: then no read counts as reliable, and no DNS is written"`
	DNSPort         int      `koanf:"dns_port" default:"53" help:"port of authoritative servers"`
	DNSAllowPrivate bool     `koanf:"dns_allow_private" help:"ask authoritative servers on private addresses too; for sandboxes"`
	DMARCRecord     string   `koanf:"dmarc_record" default:"v=DMARC1; p=none" help:"DMARC record that is planned for a domain without one, as with an address for reports: v=DMARC1; p=none; rua=mailto:dmarc@example.com. One that is there always stays"`

	DomainChecks bool `koanf:"domain_checks" default:"true" help:"read the DNS of each verified domain again about once a day, so that what is shown of it stays true and drift is noticed; false leaves it to what callers do"`

	TraceCustomerData bool `koanf:"trace_customer_data" group:"Telemetry" help:"let spans carry tenant GUIDs, domains and mailbox addresses, which are customer data; metrics and the log never do"`

	CircuitOpen time.Duration `koanf:"circuit_open" group:"Mail platform" default:"30s" help:"how long a provider that keeps failing is left alone before it is tried again"`

	RequireSMTPAuth bool `koanf:"require_smtp_auth" default:"true" help:"refuse to provision where organization SMTP AUTH is off"`

	KeepEventsDays int `koanf:"keep_events_days" group:"Send limits" default:"730" help:"how many whole days (UTC) the events of enforcement are kept; 0 for ever"`

	// Providers holds the settings of each provider by its id:
	// TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_ID is providers.microsoft365.client_id.
	Providers map[string]map[string]string `koanf:"providers" help:"settings of the providers; each plugin describes its own"`
}

// settingFlag marks the flags that every command has.
const settingFlag = "tenantry_setting"

// flags adds a flag for each plain setting.
func (Config) flags(set *pflag.FlagSet) {
	set.String("config", "", "settings file; tenantry.yaml in the working directory is read when it exists")
	for field := range fields() {
		if field.Type.Kind() == reflect.Map {
			continue
		}
		help := field.Tag.Get("help")
		if value, ok := field.Tag.Lookup("default"); ok {
			help += " (default " + value + ")"
		}
		set.String(flagName(field), "", help)
		_ = set.SetAnnotation(flagName(field), settingFlag, nil)
	}
	_ = set.SetAnnotation("config", settingFlag, nil)
}

func fields() func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for _, field := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
			if !yield(field) {
				return
			}
		}
	}
}

func flagName(field reflect.StructField) string {
	return strings.ReplaceAll(field.Tag.Get("koanf"), "_", "-")
}

// complete fills in what follows from other settings.
func (c Config) complete() (Config, error) {
	if c.DatabaseURL == "" {
		data, err := filepath.Abs(c.DataDir)
		if err != nil {
			return c, err
		}
		c.DatabaseURL = "sqlite://" + filepath.Join(data, "tenantry.db")
	}
	if c.KeysetFile == "" {
		c.KeysetFile = filepath.Join(c.DataDir, "keyset.json")
	}
	if c.PluginDir == "" {
		self, err := os.Executable()
		if err != nil {
			return c, err
		}
		if real, err := filepath.EvalSymlinks(self); err == nil {
			self = real
		}
		c.PluginDir = filepath.Join(filepath.Dir(self), "plugins")
	}
	c.Operator = cmp.Or(c.Operator, operatorHere())
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	return c, nil
}
