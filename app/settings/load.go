// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"github.com/tenantry/tenantry/app/cli"
)

// The sources of a setting's value.
const (
	SourceDefault  = "default"
	sourceFile     = "file"
	sourceVariable = "variable"
	sourceFlag     = "flag"
)

// Reading has the merged values of all sources. Read has checked their types, but not whether the
// values are allowed.
type Reading struct {
	Config Config
	// Sources has the source of each setting's value: the last source that sets it. A setting that
	// no source sets is missing.
	Sources map[string]string
}

// Load reads all sources and checks the result. preset holds values that a command sets. They
// override the defaults. The settings file, variables and flags override the values in preset.
func Load(flags *pflag.FlagSet, preset map[string]any) (Config, error) {
	r, err := Read(flags, preset)
	if err != nil {
		return Config{}, err
	}
	return r.Config, r.Config.Check()
}

// Read reads all sources. It fails when the settings file cannot be read or names an unknown
// setting, when a variable is misspelt, or when a value does not have the type of its setting. It
// does not check whether the values are allowed.
func Read(flags *pflag.FlagSet, preset map[string]any) (Reading, error) {
	reading, merged := Reading{Sources: map[string]string{}}, koanf.New(".")
	for _, source := range []struct {
		name string
		load func(*koanf.Koanf) error
	}{
		{SourceDefault, func(k *koanf.Koanf) error { return k.Load(confmap.Provider(Defaults(), "."), nil) }},
		{SourceDefault, func(k *koanf.Koanf) error { return k.Load(confmap.Provider(preset, "."), nil) }},
		{sourceFile, func(k *koanf.Koanf) error { return loadFile(k, flags) }},
		{sourceVariable, func(k *koanf.Koanf) error {
			return k.Load(env.Provider(".", env.Opt{Prefix: variablePrefix, TransformFunc: SettingOfVariable}), nil)
		}},
		{sourceFlag, func(k *koanf.Koanf) error { return k.Load(confmap.Provider(flagSettings(flags), "."), nil) }},
	} {
		k := koanf.New(".")
		err := source.load(k)
		if err == nil {
			err = splitLists(k)
		}
		if err == nil {
			err = merged.Merge(k)
		}
		if err != nil {
			return reading, unreadableError(err)
		}
		for _, key := range k.Keys() {
			reading.Sources[key] = source.name
		}
	}
	err := cmp.Or(misspeltVariable(os.Environ()), reading.checkValues(merged))
	if err != nil {
		return reading, cli.WithFix(err, fixSetting)
	}
	err = merged.Unmarshal("", &reading.Config)
	if err == nil {
		reading.Config, err = reading.Config.withDerivedDefaults()
	}
	if err != nil {
		return reading, unreadableError(err)
	}
	return reading, nil
}

// fixSetting is the fix for settings that cannot be read. It does not recommend `tenantry config`,
// because this command cannot read such settings either.
const fixSetting = "correct the setting; `tenantry serve --help` lists all settings"

// unreadableError returns the error for settings that cannot be read.
func unreadableError(err error) error {
	return cli.WithFix(fmt.Errorf("settings: %w", err), fixSetting)
}

// Defaults returns the default of each setting that has one, by the setting's name.
func Defaults() map[string]any {
	defaults := map[string]any{}
	for field := range Fields() {
		if value, ok := field.Tag.Lookup("default"); ok {
			defaults[field.Tag.Get("koanf")] = value
		}
	}
	return defaults
}

// loadFile reads the settings file. It fails for a name that is not a setting.
func loadFile(k *koanf.Koanf, flags *pflag.FlagSet) error {
	path, explicit := "tenantry.yaml", false
	if flag := flags.Lookup("config"); flag != nil && flag.Changed {
		path, explicit = flag.Value.String(), true
	}
	err := k.Load(file.Provider(path), yaml.Parser())
	switch {
	case errors.Is(err, fs.ErrNotExist) && !explicit:
		return nil
	case err != nil && !errors.As(err, new(*fs.PathError)): // a PathError names the file
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, key := range k.Keys() {
		switch {
		case isEmptySection(key, k.Get(key)):
			k.Delete(key)
		case err == nil && !isSetting(key):
			err = fmt.Errorf("%s: there is no setting %q%s", path, key, suggestion(key))
		}
	}
	return err
}

// SettingOfVariable returns the setting that a variable sets, and its value. The variable
// TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_ID sets providers.microsoft365.client_id. If the variable
// sets no setting, SettingOfVariable returns "". Kubernetes sets TENANTRY_DNS_PORT to an address
// such as tcp://10.0.0.1:53 if a service has the name tenantry-dns. This address sets no setting.
func SettingOfVariable(name, value string) (string, any) {
	if servicePort.MatchString(name + "=" + value) {
		return "", nil
	}
	key := keyOf(name)
	if rest, ok := strings.CutPrefix(key, "providers_"); ok {
		provider, field, _ := strings.Cut(rest, "_")
		if provider == "" || field == "" {
			return "", nil
		}
		return "providers." + provider + "." + field, value
	}
	for field := range Fields() {
		if field.Tag.Get("koanf") == key && field.Type.Kind() != reflect.Map {
			return key, value
		}
	}
	return "", nil
}

// splitLists splits the text of each list setting in k into items, which commas or spaces separate.
// A list in the settings file can also be a YAML list, which splitLists does not change.
func splitLists(k *koanf.Koanf) error {
	for field := range Fields() {
		key := field.Tag.Get("koanf")
		text, isText := k.Get(key).(string)
		if field.Type.Kind() != reflect.Slice || !isText {
			continue
		}
		if err := k.Set(key, strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })); err != nil {
			return err
		}
	}
	return nil
}

// flagSettings returns the settings whose flags were set, with their values.
func flagSettings(flags *pflag.FlagSet) map[string]any {
	values := map[string]any{}
	flags.Visit(func(flag *pflag.Flag) {
		for field := range Fields() {
			if FlagName(field) == flag.Name && field.Type.Kind() != reflect.Map {
				values[field.Tag.Get("koanf")] = flag.Value.String()
			}
		}
	})
	return values
}
