// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// Where a setting has its value from.
const (
	fromDefault  = "default"
	fromFile     = "file"
	fromVariable = "variable"
	fromFlag     = "flag"
)

// reading is what all sources say together, not yet checked.
type reading struct {
	config Config
	// from tells the source of each key that one of them set.
	from map[string]string
}

// loadConfig reads all sources and checks the result. preset holds values that
// a command sets between the defaults and the file.
func loadConfig(set *pflag.FlagSet, preset map[string]any) (Config, error) {
	r, err := readConfig(set, preset)
	if err != nil {
		return Config{}, err
	}
	return r.config, r.config.check()
}

func readConfig(set *pflag.FlagSet, preset map[string]any) (reading, error) {
	r, all := reading{from: map[string]string{}}, koanf.New(".")
	for _, source := range []struct {
		name string
		load func(*koanf.Koanf) error
	}{
		{fromDefault, func(k *koanf.Koanf) error { return k.Load(confmap.Provider(defaults(), "."), nil) }},
		{fromDefault, func(k *koanf.Koanf) error { return k.Load(confmap.Provider(preset, "."), nil) }},
		{fromFile, func(k *koanf.Koanf) error { return loadFile(k, set) }},
		{fromVariable, func(k *koanf.Koanf) error {
			return k.Load(env.Provider(".", env.Opt{Prefix: variablePrefix, TransformFunc: setting}), nil)
		}},
		{fromFlag, func(k *koanf.Koanf) error { return k.Load(confmap.Provider(given(set), "."), nil) }},
	} {
		k := koanf.New(".")
		err := source.load(k)
		if err == nil {
			err = all.Merge(k)
		}
		if err != nil {
			return r, unreadable(err)
		}
		for _, key := range k.Keys() {
			r.from[key] = source.name
		}
	}
	err := all.Unmarshal("", &r.config)
	if err == nil {
		r.config, err = r.config.complete()
	}
	if err != nil {
		return r, unreadable(err)
	}
	return r, nil
}

func unreadable(err error) error {
	return failure{fmt.Errorf("settings: %w", err), "correct it; `tenantry serve --help` lists all settings"}
}

func defaults() map[string]any {
	all := map[string]any{}
	for field := range fields() {
		if value, ok := field.Tag.Lookup("default"); ok {
			all[field.Tag.Get("koanf")] = value
		}
	}
	return all
}

// loadFile reads the settings file. All of it is ours, so a name that is no
// setting is a mistake.
func loadFile(k *koanf.Koanf, set *pflag.FlagSet) error {
	name, explicit := "tenantry.yaml", false
	if flag := set.Lookup("config"); flag != nil && flag.Changed {
		name, explicit = flag.Value.String(), true
	}
	err := k.Load(file.Provider(name), yaml.Parser())
	if errors.Is(err, fs.ErrNotExist) && !explicit {
		return nil
	}
	for _, key := range k.Keys() {
		if err == nil && !known(key) {
			err = fmt.Errorf("%s: there is no setting %q%s", name, key, meant(key))
		}
	}
	return err
}

// setting turns a variable's name into a key: those of providers nest. It is
// "" for a variable that is no setting.
func setting(name, value string) (string, any) {
	key := strings.ToLower(strings.TrimPrefix(name, variablePrefix))
	if rest, ok := strings.CutPrefix(key, "providers_"); ok {
		provider, name, _ := strings.Cut(rest, "_")
		if provider == "" || name == "" {
			return "", nil
		}
		return "providers." + provider + "." + name, value
	}
	for field := range fields() {
		if field.Tag.Get("koanf") != key || field.Type.Kind() == reflect.Map {
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
				if key, value := setting(variableName(field.Tag.Get("koanf")), flag.Value.String()); key != "" {
					values[key] = value
				}
			}
		}
	})
	return values
}
