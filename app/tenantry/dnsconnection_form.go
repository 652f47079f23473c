// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
)

// accountForm holds what an operator gives for an account against the fields
// that the provider's plugin describes. No value is ever repeated: it may be a
// secret in the wrong place.
type accountForm struct{ wire.Description }

// accountSecrets are the secret part of a credential.
type accountSecrets map[string]secret.Text

func (s accountSecrets) with(settings map[string]string) secret.Credential {
	return secret.Credential{Settings: settings, Secrets: s}
}

// settings reads the --set flags.
func (f accountForm) settings(set []string) (map[string]string, error) {
	given := map[string]string{}
	for _, one := range set {
		name, value, ok := strings.Cut(one, "=")
		value = strings.TrimSpace(value)
		switch field, known := f.field(name); {
		case !ok:
			return nil, errors.New("--set is NAME=VALUE")
		case !known:
			return nil, fmt.Errorf("%s has no field %q", f.Name, cli.Printable(name))
		case !field.Account:
			return nil, fmt.Errorf("%s is the operator's to set, for all accounts: providers.%s.%s in tenantry.yaml", name, f.Name, settingOf(field))
		case field.Secret:
			return nil, fmt.Errorf("%s is a secret: it goes into the file of --credential-file", name)
		case value == "" || !utf8.ValidString(value):
			return nil, fmt.Errorf("--set %s has no value, or one that is no text", name)
		case given[name] != "":
			return nil, fmt.Errorf("--set %s is given twice", name)
		}
		given[name] = value
	}
	return given, f.missing(given)
}

func (f accountForm) field(name string) (wire.Field, bool) {
	i := slices.IndexFunc(f.Fields, func(field wire.Field) bool { return field.Name == name })
	if i < 0 {
		return wire.Field{}, false
	}
	return f.Fields[i], true
}

// missing names all settings that are still needed.
func (f accountForm) missing(given map[string]string) error {
	var names []string
	for _, field := range f.FieldsOf(true) {
		if field.Required && !field.Secret && field.Default == "" && given[field.Name] == "" {
			names = append(names, "--set "+field.Name)
		}
	}
	if len(names) > 0 {
		return fmt.Errorf("%s needs %s", f.Name, strings.Join(names, ", "))
	}
	return nil
}

// secrets reads the credential file: the one secret as it is, or a JSON object
// of several.
func (f accountForm) secrets(cmd *cobra.Command, file string) (accountSecrets, error) {
	fields := f.secretFields()
	switch {
	case len(fields) == 0 && file == "":
		return accountSecrets{}, nil
	case len(fields) == 0:
		return nil, fmt.Errorf("%s takes no credential", f.Name)
	case file == "":
		return nil, errors.New("--credential-file is missing")
	}
	text, err := cli.ReadSecret(cmd, file, "credential")
	if err != nil {
		return nil, err
	}
	if !utf8.ValidString(text.Reveal()) {
		return nil, errors.New("the credential file holds no text")
	}
	if len(fields) == 1 {
		return accountSecrets{fields[0].Name: text}, nil
	}
	return f.several(fields, text)
}

func (f accountForm) secretFields() []wire.Field {
	return slices.DeleteFunc(f.FieldsOf(true), func(field wire.Field) bool { return !field.Secret })
}

func (f accountForm) several(fields []wire.Field, text secret.Text) (accountSecrets, error) {
	var given map[string]string
	if json.Unmarshal([]byte(text.Reveal()), &given) != nil { // its words could quote a secret
		return nil, errors.New("the credential file is no JSON object of texts")
	}
	found := accountSecrets{}
	for _, field := range fields {
		switch value := strings.TrimSpace(given[field.Name]); {
		case value != "":
			found[field.Name] = secret.New(value)
		case field.Required:
			return nil, fmt.Errorf("%s is missing in the credential file", field.Name)
		}
		delete(given, field.Name)
	}
	if len(given) > 0 {
		return nil, fmt.Errorf("the credential file has members that %s does not know: %d", f.Name, len(given))
	}
	return found, nil
}

// wrong makes what is wrong with the form a mistake in the command, with all
// fields of the provider as the way out. A file that cannot be read is none.
func (f accountForm) wrong(err error) error {
	if cli.HasFix(err) {
		return err
	}
	return cli.WithFix(cli.Usage(err), f.Name+" takes:\n"+f.help())
}

func (f accountForm) help() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fields := f.secretFields()
	for _, field := range f.FieldsOf(true) {
		switch {
		case !field.Secret:
			_, _ = fmt.Fprintf(table, "  --set %s=…\t%s%s\n", field.Name, field.Help, need(field))
		case len(fields) == 1:
			_, _ = fmt.Fprintf(table, "  --credential-file FILE\t%s\n", field.Help)
		default:
			_, _ = fmt.Fprintf(table, "  %q in the credential file\t%s%s\n", field.Name, field.Help, need(field))
		}
	}
	_ = table.Flush()
	return strings.TrimRight(text.String(), "\n")
}

// need says what happens to a field that is left out.
func need(field wire.Field) string {
	switch {
	case field.Default != "":
		return "; " + field.Default + " unless set"
	case field.Required:
		return ""
	default:
		return " (optional)"
	}
}
