// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// Config is everything that can be set. It is read once, at start: defaults,
// then tenantry.yaml, then TENANTRY_… variables, then flags.
type Config struct {
	Listen      string `koanf:"listen" default:"127.0.0.1:8080" help:"address of the API and the pages for people"`
	AdminListen string `koanf:"admin_listen" default:"127.0.0.1:9090" help:"address of /metrics, /livez and /readyz"`
	PublicURL   string `koanf:"public_url" help:"where browsers reach the API, without a final slash; http://LISTEN unless set"`
	DataDir     string `koanf:"data_dir" default:"./tenantry-data" help:"folder of the embedded database and the keyset"`
	DatabaseURL string `koanf:"database_url" help:"sqlite:///path or postgres://…; a SQLite file in the data folder unless set"`
	KeysetFile  string `koanf:"keyset_file" help:"the keyset that seals stored secrets; keyset.json in the data folder unless set"`
	PluginDir   string `koanf:"plugin_dir" help:"folder of the provider plugins and their catalog; plugins beside the binary unless set"`
	KeyPrefix   string `koanf:"key_prefix" default:"tny" help:"first part of API keys"`
	LogLevel    string `koanf:"log_level" default:"info" help:"debug, info, warn or error"`
	Operator    string `koanf:"operator" help:"who the audit says ran a command; the system's user and host unless set"`

	DNSResolvers    []string `koanf:"dns_resolvers" help:"recursive resolvers, addresses with ports; those of the system unless set"`
	DNSPort         int      `koanf:"dns_port" default:"53" help:"port of authoritative servers"`
	DNSAllowPrivate bool     `koanf:"dns_allow_private" help:"ask authoritative servers on private addresses too; for sandboxes"`

	CircuitOpen time.Duration `koanf:"circuit_open" default:"30s" help:"how long a provider that keeps failing is left alone before it is tried again"`

	RequireSMTPAuth bool `koanf:"require_smtp_auth" default:"true" help:"refuse to provision where organization SMTP AUTH is off"`

	// Providers holds the settings of each provider by its id:
	// TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_ID is providers.microsoft365.client_id.
	Providers map[string]map[string]string `koanf:"providers" help:"settings of the providers; each plugin describes its own"`
}

// flags adds a flag for each plain setting.
func (Config) flags(set *pflag.FlagSet) {
	set.String("config", "", "settings file; tenantry.yaml in the working directory is read when it exists")
	for field := range fields() {
		if field.Type.Kind() == reflect.Map {
			continue
		}
		set.String(flagName(field), "", field.Tag.Get("help"))
	}
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

// loadConfig reads all sources and checks the result. preset holds values that
// a command sets between the defaults and the file.
func loadConfig(set *pflag.FlagSet, preset map[string]any) (Config, error) {
	k := koanf.New(".")
	defaults := map[string]any{}
	for field := range fields() {
		if value, ok := field.Tag.Lookup("default"); ok {
			defaults[field.Tag.Get("koanf")] = value
		}
	}
	steps := []func() error{
		func() error { return k.Load(confmap.Provider(defaults, "."), nil) },
		func() error { return k.Load(confmap.Provider(preset, "."), nil) },
		func() error { return loadFile(k, set) },
		func() error {
			return k.Load(env.Provider(".", env.Opt{Prefix: "TENANTRY_", TransformFunc: setting}), nil)
		},
		func() error { return k.Load(confmap.Provider(given(set), "."), nil) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return Config{}, fmt.Errorf("settings: %w", err)
		}
	}
	var c Config
	if err := k.Unmarshal("", &c); err != nil {
		return Config{}, fmt.Errorf("settings: %w", err)
	}
	return c.complete()
}

func loadFile(k *koanf.Koanf, set *pflag.FlagSet) error {
	name, explicit := "tenantry.yaml", false
	if flag := set.Lookup("config"); flag != nil && flag.Changed {
		name, explicit = flag.Value.String(), true
	}
	err := k.Load(file.Provider(name), yaml.Parser())
	if errors.Is(err, fs.ErrNotExist) && !explicit {
		return nil
	}
	return err
}

// setting turns a variable's name into a key: those of providers nest.
func setting(name, value string) (string, any) {
	key := strings.ToLower(strings.TrimPrefix(name, "TENANTRY_"))
	if rest, ok := strings.CutPrefix(key, "providers_"); ok {
		provider, name, found := strings.Cut(rest, "_")
		if !found {
			return "", nil
		}
		return "providers." + provider + "." + name, value
	}
	for field := range fields() {
		if field.Tag.Get("koanf") != key {
			continue
		}
		if field.Type.Kind() == reflect.Slice {
			return key, strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
		}
		return key, value
	}
	return "", nil
}

func given(set *pflag.FlagSet) map[string]any {
	values := map[string]any{}
	set.Visit(func(flag *pflag.Flag) {
		for field := range fields() {
			if flagName(field) == flag.Name && field.Type.Kind() != reflect.Map {
				if key, value := setting("TENANTRY_"+field.Tag.Get("koanf"), flag.Value.String()); key != "" {
					values[key] = value
				}
			}
		}
	})
	return values
}

// complete fills in what follows from other settings and refuses nonsense.
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
	return c, c.check()
}

func (c Config) check() error {
	for name, address := range map[string]string{"listen": c.Listen, "admin_listen": c.AdminListen} {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("%s: %q is not host:port", name, address)
		}
	}
	for _, address := range c.DNSResolvers {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("dns_resolvers: %q is not host:port", address)
		}
	}
	if c.DNSPort < 1 || c.DNSPort > 65535 {
		return fmt.Errorf("dns_port: %d is no port", c.DNSPort)
	}
	if c.PublicURL != "" {
		u, err := url.Parse(c.PublicURL)
		if err != nil || u.Host == "" || u.Scheme != "https" && !loopback(u) {
			return fmt.Errorf("public_url: %q is neither https://… nor http:// on loopback", c.PublicURL)
		}
	}
	if c.CircuitOpen <= 0 {
		return fmt.Errorf("circuit_open: %s is no time to wait", c.CircuitOpen)
	}
	if _, err := logLevel(c.LogLevel); err != nil {
		return err
	}
	return nil
}

func loopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}
