// SPDX-License-Identifier: Apache-2.0

package main

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
	"github.com/tenantry/tenantry/plugins/wire"
)

// describeTime bounds how long plugins may take to say what they need.
const describeTime = 10 * time.Second

const redacted = "[redacted]"

// settingRow is a setting as it is now.
type settingRow struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	Source   string `json:"source"`
	Variable string `json:"variable"`
	Flag     string `json:"flag"`
}

func (r settingRow) Columns() [][2]string {
	return [][2]string{{"SETTING", r.Name}, {"VALUE", r.Value}, {"FROM", r.Source}}
}

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show every setting, its value and where that comes from",
		Long: "Shows every setting, its value, and whether that is the default or comes from tenantry.yaml, a variable or a\n" +
			"flag. Passwords in URLs and other secrets are shown as " + redacted + ".",
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := settings.Read(cmd.Flags(), nil)
			if err != nil {
				return cli.Usage(err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), describeTime)
			defer cancel()
			rows := append(settingRows(r), providerRows(r, describeAll(ctx, r.Config.PluginDir))...)
			if err := cli.List(cmd, "settings", rows); err != nil {
				return err
			}
			if err := r.Config.Check(); err != nil {
				return cli.Usage(err)
			}
			return nil
		},
	}
	settings.Config{}.AddFlags(cmd.Flags())
	return cmd
}

// settingRows returns a row for each setting of the struct, in its order.
func settingRows(r settings.Reading) []settingRow {
	var rows []settingRow
	values := reflect.ValueOf(r.Config)
	for field := range settings.Fields() {
		if field.Type.Kind() == reflect.Map {
			continue
		}
		key := field.Tag.Get("koanf")
		rows = append(rows, settingRow{
			Name: key, Value: shown(field, values.FieldByIndex(field.Index)), Source: cmp.Or(r.From[key], settings.FromDefault),
			Variable: settings.VariableName(key), Flag: "--" + settings.FlagName(field),
		})
	}
	return rows
}

func shown(field reflect.StructField, value reflect.Value) string {
	text := fmt.Sprint(value.Interface())
	if list, ok := value.Interface().([]string); ok {
		text = strings.Join(list, ",")
	}
	switch {
	case text == "":
		return ""
	case field.Tag.Get("secret") == "url":
		return withoutPassword(text)
	case field.Tag.Get("secret") != "":
		return redacted
	}
	return text
}

// withoutPassword takes the password out of a URL, wherever it stands. What
// cannot be read is not shown at all.
func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return redacted
	}
	if _, ok := u.User.Password(); ok {
		u.User = url.UserPassword(u.User.Username(), redacted)
	}
	query := u.Query()
	for name := range query {
		if secretName(name) {
			query.Set(name, redacted)
			u.RawQuery = query.Encode()
		}
	}
	return strings.ReplaceAll(u.String(), url.QueryEscape(redacted), redacted)
}

// secretName reports whether a name looks like that of a secret. The name of a
// file is none.
func secretName(name string) bool {
	name = strings.ToLower(name)
	return !strings.HasSuffix(name, "_file") && slices.ContainsFunc([]string{"secret", "password", "token", "certificate", "passphrase"},
		func(word string) bool { return strings.Contains(name, word) })
}

// providerRows are the settings of the providers: those that their plugins
// describe, and those that were given and nobody knows.
func providerRows(r settings.Reading, descriptions map[string]wire.Description) []settingRow {
	var rows []settingRow
	row := func(provider, name, value string) {
		key := "providers." + provider + "." + name
		if value != "" && secretName(name) {
			value = redacted
		}
		rows = append(rows, settingRow{Name: key, Value: value, Source: cmp.Or(r.From[key], settings.FromDefault), Variable: settings.VariableName(key)})
	}
	for _, provider := range slices.Sorted(maps.Keys(descriptions)) {
		for _, field := range descriptions[provider].FieldsOf(false) {
			name := settingOf(field)
			row(provider, name, cmp.Or(r.Config.Providers[provider][name], field.Default))
		}
	}
	for _, provider := range slices.Sorted(maps.Keys(r.Config.Providers)) {
		for _, name := range unknownSettings(descriptions[provider], r.Config.Providers[provider]) {
			row(provider, name, r.Config.Providers[provider][name])
			if len(descriptions) > 0 {
				rows[len(rows)-1].Source += ", unknown"
			}
		}
	}
	return rows
}

// settingOf is the name of the setting that fills a provider's field: secrets
// come from files.
func settingOf(field wire.Field) string {
	if field.Secret {
		return field.Name + "_file"
	}
	return field.Name
}

// unknownSettings are those that were given and that the plugin does not know.
func unknownSettings(about wire.Description, given map[string]string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(about.FieldsOf(false), func(f wire.Field) bool { return settingOf(f) == name }) {
			names = append(names, name)
		}
	}
	return names
}

// describeAll asks all plugins what they need. One that does not run is left
// out; doctor says why.
func describeAll(ctx context.Context, dir string) map[string]wire.Description {
	host, err := pluginhost.New(pluginhost.Options{Dir: dir, Log: slog.New(slog.DiscardHandler), Env: os.Environ()})
	if err != nil {
		return nil
	}
	defer host.Close()
	all := map[string]wire.Description{}
	for _, plugin := range host.Status() {
		if about, err := host.Describe(ctx, plugin.Name); err == nil {
			all[plugin.Name] = about
		}
	}
	return all
}
