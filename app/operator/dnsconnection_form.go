// SPDX-License-Identifier: Apache-2.0

package operator

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
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
)

// credentialForm checks the settings and secrets of a DNS connection against the fields that the
// provider's plugin describes. Its errors never contain a value, because an operator can put a
// secret into the wrong field by mistake.
type credentialForm struct{ wire.Description }

// credentialSecrets holds the secrets of a credential, keyed by field name.
type credentialSecrets map[string]secret.Text

// withSettings returns the credential of these secrets and settings.
func (s credentialSecrets) withSettings(settings map[string]string) secret.Credential {
	return secret.Credential{Settings: settings, Secrets: s}
}

// settings parses the assignments of the --set flags into values keyed by field name. It fails for
// an assignment that is malformed or repeated, or whose value is empty or not UTF-8. The fields
// must be settings of an account's connection, and all required settings must be set.
func (f credentialForm) settings(assignments []string) (map[string]string, error) {
	values := map[string]string{}
	for _, assignment := range assignments {
		name, value, ok := strings.Cut(assignment, "=")
		value = strings.TrimSpace(value)
		switch field, known := f.field(name); {
		case !ok:
			return nil, errors.New("--set must be NAME=VALUE")
		case !known:
			return nil, fmt.Errorf("%s has no field %q", f.Name, cli.Printable(name))
		case !field.Account:
			return nil, fmt.Errorf("%s is set by the operator for all accounts: providers.%s.%s in tenantry.yaml", name, f.Name, wiring.SettingOf(field))
		case field.Secret:
			return nil, fmt.Errorf("%s is a secret: write it into the file of --credential-file", name)
		case value == "" || !utf8.ValidString(value):
			return nil, fmt.Errorf("--set %s has no value, or its value is not valid text", name)
		case values[name] != "":
			return nil, fmt.Errorf("--set %s is repeated", name)
		}
		values[name] = value
	}
	return values, f.checkRequired(values)
}

func (f credentialForm) field(name string) (wire.Field, bool) {
	i := slices.IndexFunc(f.Fields, func(field wire.Field) bool { return field.Name == name })
	if i < 0 {
		return wire.Field{}, false
	}
	return f.Fields[i], true
}

// checkRequired returns an error that names all required settings without a value or a default.
func (f credentialForm) checkRequired(values map[string]string) error {
	var names []string
	for _, field := range f.FieldsOf(wire.OfAccount) {
		if field.Required && !field.Secret && field.Default == "" && values[field.Name] == "" {
			names = append(names, "--set "+field.Name)
		}
	}
	if len(names) > 0 {
		return fmt.Errorf("%s needs %s", f.Name, strings.Join(names, ", "))
	}
	return nil
}

// secrets reads the credential file: the secret itself for a provider with one secret, or a JSON
// object for a provider with several. The file must be named if the provider has secrets, and must
// not be named otherwise. Its content must be UTF-8.
func (f credentialForm) secrets(cmd *cobra.Command, file string) (credentialSecrets, error) {
	fields := f.secretFields()
	switch {
	case len(fields) == 0 && file == "":
		return credentialSecrets{}, nil
	case len(fields) == 0:
		return nil, fmt.Errorf("%s needs no credential", f.Name)
	case file == "":
		return nil, errors.New("--credential-file is missing")
	}
	text, err := cli.ReadSecret(cmd, file, "credential")
	if err != nil {
		return nil, err
	}
	if !utf8.ValidString(text.Reveal()) {
		return nil, errors.New("the credential file is not valid text")
	}
	if len(fields) == 1 {
		return credentialSecrets{fields[0].Name: text}, nil
	}
	return f.parseSecrets(fields, text)
}

func (f credentialForm) secretFields() []wire.Field {
	return slices.DeleteFunc(f.FieldsOf(wire.OfAccount), func(field wire.Field) bool { return !field.Secret })
}

// parseSecrets parses the JSON object of a credential file. The object must have all required
// secrets, and no members that are not secrets of the connection.
func (f credentialForm) parseSecrets(fields []wire.Field, text secret.Text) (credentialSecrets, error) {
	var values map[string]string
	if json.Unmarshal([]byte(text.Reveal()), &values) != nil { // the JSON error could quote a secret
		return nil, errors.New("the credential file is not a JSON object with text values")
	}
	secrets := credentialSecrets{}
	for _, field := range fields {
		switch value := strings.TrimSpace(values[field.Name]); {
		case value != "":
			secrets[field.Name] = secret.New(value)
		case field.Required:
			return nil, fmt.Errorf("%s is missing in the credential file", field.Name)
		}
		delete(values, field.Name)
	}
	if len(values) > 0 {
		return nil, fmt.Errorf("the credential file has %d members that are not secrets of a connection to %s", len(values), f.Name)
	}
	return secrets, nil
}

// usageError returns err as a usage error. Its fix lists all fields of an account's connection. An
// error that already has a fix, for example because a file cannot be read, is returned unchanged.
func (f credentialForm) usageError(err error) error {
	if cli.HasFix(err) {
		return err
	}
	return cli.WithFix(cli.UsageError(err), "the fields of "+f.Name+":\n"+f.help())
}

// help returns one line for each field of an account's connection. The line shows how to pass the
// field and what the field is for.
func (f credentialForm) help() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	secrets := f.secretFields()
	for _, field := range f.FieldsOf(wire.OfAccount) {
		switch {
		case !field.Secret:
			_, _ = fmt.Fprintf(table, "  --set %s=…\t%s%s\n", field.Name, field.Help, fieldNote(field))
		case len(secrets) == 1:
			_, _ = fmt.Fprintf(table, "  --credential-file FILE\t%s\n", field.Help)
		default:
			_, _ = fmt.Fprintf(table, "  %q in the credential file\t%s%s\n", field.Name, field.Help, fieldNote(field))
		}
	}
	_ = table.Flush()
	return strings.TrimRight(text.String(), "\n")
}

// fieldNote returns the text after the help of a field: its default, or that it is optional.
func fieldNote(field wire.Field) string {
	switch {
	case field.Default != "":
		return "; " + field.Default + " unless set"
	case field.Required:
		return ""
	default:
		return " (optional)"
	}
}
