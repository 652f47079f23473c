// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenantry/tenantry/core/secret"
)

// RefuseUnexpectedArguments makes cmd and its subcommands return a usage error for an unexpected
// argument, and for a missing subcommand.
func RefuseUnexpectedArguments(cmd *cobra.Command) {
	checkArgs := cmd.Args
	if checkArgs == nil {
		checkArgs = noArguments
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := checkArgs(cmd, args); err != nil {
			return UsageError(err)
		}
		return nil
	}
	if cmd.HasSubCommands() && cmd.RunE == nil {
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			return UsageError(fmt.Errorf("%s needs a subcommand", cmd.CommandPath()))
		}
	}
	for _, sub := range cmd.Commands() {
		RefuseUnexpectedArguments(sub)
	}
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasSubCommands() {
		return fmt.Errorf("%s accepts only flags, not %q", cmd.CommandPath(), args[0])
	}
	suggestion := ""
	cmd.SuggestionsMinimumDistance = 2
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		suggestion = "; did you mean " + similar[0] + "?"
	}
	return fmt.Errorf("%s has no command %q%s", cmd.CommandPath(), args[0], suggestion)
}

// CheckHelpArguments makes the command `help` refuse the name of a command that does not exist.
func CheckHelpArguments(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "help" {
			cmd.Args = func(_ *cobra.Command, args []string) error {
				found, rest, err := root.Find(args)
				if err != nil {
					return err
				}
				return noArguments(found, rest)
			}
		}
	}
}

// OneFile checks that the only argument is the name of a file. Standard input is not accepted.
func OneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" || args[0] == "-" {
		return fmt.Errorf("%s requires the name of one file", cmd.CommandPath())
	}
	return nil
}

// AtLeastOneFile checks that there are one or more arguments, which are the names of files.
func AtLeastOneFile(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%s requires the name of at least one file", cmd.CommandPath())
	}
	return nil
}

// mayBeEmpty lists the flags whose value may be empty, because the text is optional or because an
// empty value removes the stored text.
var mayBeEmpty = []string{"name", "display-name", "support-url"}

// RefuseEmptyFlagValues returns a usage error when a flag whose value is a string is set to an
// empty value. A script can pass an empty value by mistake, because a variable is not set. The
// command would treat the flag as missing. --config, the flags of settings and the flags in
// mayBeEmpty may be empty.
func RefuseEmptyFlagValues(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		_, isSetting := flag.Annotations[SettingAnnotation]
		if err == nil && !isSetting && !slices.Contains(mayBeEmpty, flag.Name) && flag.Value.Type() == "string" && flag.Value.String() == "" {
			err = UsageError(fmt.Errorf("--%s is empty", flag.Name))
		}
	})
	return err
}

// WantsErrorAsJSON reports whether the error of cmd must be printed as JSON. It also searches args
// for --output, because cobra stops parsing at the first invalid flag.
func WantsErrorAsJSON(cmd *cobra.Command, args []string) bool {
	if WantsJSON(cmd) {
		return true
	}
	for i, arg := range args {
		switch arg {
		case "-ojson", "-o=json", "--output=json":
			return true
		case "-o", "--output":
			if slices.Equal(args[i+1:min(i+2, len(args))], []string{"json"}) {
				return true
			}
		}
	}
	return false
}

// RequireFlags makes cmd refuse to run without these flags.
func RequireFlags(cmd *cobra.Command, names ...string) {
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		for _, name := range names {
			if !cmd.Flags().Changed(name) {
				return UsageError(fmt.Errorf("--%s is missing", name))
			}
		}
		return nil
	}
}

// maxSecret is the maximum size in bytes of a secret that ReadSecret reads.
const maxSecret = 64 << 10

// ReadSecret reads a secret from the named file, or from standard input when name is "-". It
// removes the white space around the secret. When name is empty, it returns an empty secret. It
// stops waiting for standard input and fails when the context of cmd ends. kind is the name of the
// secret in error messages, such as "passphrase".
func ReadSecret(cmd *cobra.Command, name, kind string) (secret.Text, error) {
	if name == "" {
		return secret.Text{}, nil
	}
	var raw []byte
	var err error
	if name == "-" {
		raw, err = readInput(cmd, func(in io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(in, maxSecret+1)) })
	} else {
		raw, err = os.ReadFile(name)
	}
	if err != nil {
		return secret.Text{}, WithFix(fmt.Errorf("read %s: %w", kind, err), "--credential-file must name a file with the "+kind+", or be - for standard input")
	}
	if len(raw) > maxSecret {
		return secret.Text{}, WithFix(fmt.Errorf("the %s is longer than %d bytes", kind, maxSecret), "check that the input contains only the "+kind)
	}
	text := secret.New(strings.TrimSpace(string(raw)))
	if text.Empty() {
		return secret.Text{}, WithFix(fmt.Errorf("the %s is empty", kind), "write the "+kind+" into the file that --credential-file names")
	}
	return text, nil
}
