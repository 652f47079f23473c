// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/plugins/wire"
)

// describeTimeout is the timeout for all plugins together to describe their settings.
const describeTimeout = 45 * time.Second

// redacted replaces secret values in the output.
const redacted = "[redacted]"

type settingRow struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	Source   string `json:"source"`
	Variable string `json:"variable"`
	Flag     string `json:"flag"`
}

// Columns implements cli.Row.
func (r settingRow) Columns() [][2]string {
	return [][2]string{{"SETTING", r.Name}, {"VALUE", r.Value}, {"FROM", r.Source}}
}

// configCommand returns the command that shows all settings. It shows them even when a value is not
// allowed, and then fails with a usage error. If the settings cannot be read, it shows nothing.
func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show every setting, its value and its source",
		Long: "Shows every setting, its value, and whether that is the default or comes from tenantry.yaml, a variable or a\n" +
			"flag. Passwords in URLs and other secrets are shown as " + redacted + ".",
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := settings.Read(cmd.Flags(), nil)
			if err != nil {
				return cli.UsageError(err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), describeTimeout)
			defer cancel()
			descriptions, undescribed := describePlugins(ctx, r.Config)
			rows := append(settingRows(r), providerRows(r, descriptions, undescribed)...)
			if err := cli.List(cmd, "settings", rows); err != nil {
				return err
			}
			if err := r.Config.Check(); err != nil {
				return cli.UsageError(err)
			}
			return nil
		},
	}
	settings.Config{}.AddFlags(cmd.Flags())
	return cmd
}

// settingRows returns a row for each field of settings.Config except the map Providers, in the
// order of the fields.
func settingRows(r settings.Reading) []settingRow {
	var rows []settingRow
	values := reflect.ValueOf(r.Config)
	for field := range settings.Fields() {
		if field.Type.Kind() == reflect.Map {
			continue
		}
		key := field.Tag.Get("koanf")
		rows = append(rows, settingRow{
			Name: key, Value: displayValue(field, values.FieldByIndex(field.Index)), Source: cmp.Or(r.Sources[key], settings.SourceDefault),
			Variable: settings.VariableName(key), Flag: "--" + settings.FlagName(field),
		})
	}
	return rows
}

// displayValue returns the value of a setting as text, without secrets.
func displayValue(field reflect.StructField, value reflect.Value) string {
	text := fmt.Sprint(value.Interface())
	if list, ok := value.Interface().([]string); ok {
		text = strings.Join(list, ",")
	}
	switch {
	case text == "":
		return ""
	case field.Tag.Get("secret") == "url":
		return redactURL(text)
	case field.Tag.Get("secret") != "":
		return redacted
	}
	return withoutPasswords(text)
}

// withoutPasswords returns the value of a setting that should contain no secret. If the value looks
// like a URL with a user or a query, the result is that of redactURL.
func withoutPasswords(value string) string {
	if strings.Contains(value, "://") && strings.ContainsAny(value, "@?") {
		return redactURL(value)
	}
	return value
}

// redactURL redacts the password of a URL, and the value of each query parameter for which
// isSecretName is true. It redacts the whole query if the query cannot be parsed. It redacts the
// whole address if the address is not a URL that begins with a scheme and "://". It also redacts
// the whole address if an @ follows the host, because the text before the @ can be a password that
// url.Parse does not recognize. A SQLite address may have an @, because its path contains no
// password.
func redactURL(address string) string {
	u, err := url.Parse(address)
	if err != nil || !strings.HasPrefix(strings.ToLower(address), u.Scheme+"://") {
		return redacted
	}
	if u.Scheme != "sqlite" && strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
		return redacted
	}
	if _, ok := u.User.Password(); ok {
		u.User = url.UserPassword(u.User.Username(), redacted)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil { // a malformed part is not in query, and can contain a password
		query, u.RawQuery = nil, redacted
	}
	for name := range query {
		if isSecretName(name) {
			query.Set(name, redacted)
			u.RawQuery = query.Encode()
		}
	}
	return strings.ReplaceAll(u.String(), url.QueryEscape(redacted), redacted)
}

// isSecretName reports whether name looks like the name of a secret. The value of a name that ends
// in _file is a path, which is not a secret.
func isSecretName(name string) bool {
	name = strings.ToLower(name)
	return !strings.HasSuffix(name, "_file") && slices.ContainsFunc([]string{"secret", "password", "token", "certificate", "passphrase", "api_key", "credential"},
		func(word string) bool { return strings.Contains(name, word) })
}

// providerRows returns the settings of the providers: first the settings that a plugin describes,
// then settings that are set but not described by a plugin. A described setting of a secret is the
// path of a file. The value of an undescribed setting can be a misplaced secret. It is redacted if
// the setting has the name of a secret field, or if isSecretName is true for its name. undescribed
// has the plugins of the catalog that did not describe themselves: their settings are not known.
func providerRows(r settings.Reading, descriptions map[string]wire.Description, undescribed []string) []settingRow {
	var rows []settingRow
	add := func(provider, name, value string) {
		key := "providers." + provider + "." + name
		rows = append(rows, settingRow{Name: key, Value: withoutPasswords(value), Source: cmp.Or(r.Sources[key], settings.SourceDefault), Variable: settings.VariableName(key)})
	}
	for _, provider := range slices.Sorted(maps.Keys(descriptions)) {
		for _, field := range descriptions[provider].FieldsOf(wire.OfOperator) {
			name := wiring.SettingOf(field)
			add(provider, name, cmp.Or(r.Config.Providers[provider][name], field.Default))
		}
	}
	for _, provider := range slices.Sorted(maps.Keys(r.Config.Providers)) {
		for _, name := range wiring.UnknownSettings(descriptions[provider], r.Config.Providers[provider]) {
			value := r.Config.Providers[provider][name]
			isSecretField := slices.ContainsFunc(descriptions[provider].Fields, func(f wire.Field) bool { return f.Secret && f.Name == name })
			if value != "" && (isSecretField || isSecretName(name)) {
				value = redacted
			}
			add(provider, name, value)
			if len(descriptions) > 0 && !slices.Contains(undescribed, provider) {
				rows[len(rows)-1].Source += ", unknown"
			}
		}
	}
	return rows
}

// describePlugins returns the descriptions of the catalog's plugins, by name, and the names of the
// plugins that do not describe themselves. It returns nothing if the catalog cannot be read.
// `tenantry doctor` reports these problems.
func describePlugins(ctx context.Context, c settings.Config) (descriptions map[string]wire.Description, undescribed []string) {
	host, err := pluginhost.New(pluginhost.Options{Dir: c.PluginDir, Log: slog.New(slog.DiscardHandler), Env: os.Environ(), Limits: wiring.PluginLimits(c)})
	if err != nil {
		return nil, nil
	}
	defer host.Close()
	plugins := host.Status()
	described := make([]wire.Description, len(plugins))
	errs := make([]error, len(plugins))
	var starts panics.Group // the plugins start in parallel
	for i, plugin := range plugins {
		starts.Go(func() { described[i], errs[i] = host.Describe(ctx, plugin.Name) })
	}
	starts.Wait()
	descriptions = map[string]wire.Description{}
	for i, plugin := range plugins {
		if errs[i] == nil {
			descriptions[plugin.Name] = described[i]
		} else {
			undescribed = append(undescribed, plugin.Name)
		}
	}
	return descriptions, undescribed
}
