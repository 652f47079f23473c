// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// strict turns cobra's own complaints about arguments into usage errors.
func strict(cmd *cobra.Command) {
	check := cmd.Args
	if check == nil {
		check = noArguments
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
	if cmd.HasSubCommands() && cmd.RunE == nil {
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			return usageError{fmt.Errorf("%s needs a subcommand", cmd.CommandPath())}
		}
	}
	for _, sub := range cmd.Commands() {
		strict(sub)
	}
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasSubCommands() {
		return fmt.Errorf("%s takes flags only, not %q", cmd.CommandPath(), args[0])
	}
	meant := ""
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		meant = "; did you mean " + near[0] + "?"
	}
	return fmt.Errorf("%s has no command %q%s", cmd.CommandPath(), args[0], meant)
}

// helped lets `help` refuse what is no command, as the command itself would.
func helped(root *cobra.Command) {
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

// oneFile is what commands check that read or write a file.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" || args[0] == "-" {
		return fmt.Errorf("%s takes the name of one file", cmd.CommandPath())
	}
	return nil
}

func someFiles(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%s takes the name of a file, or of several", cmd.CommandPath())
	}
	return nil
}

// notEmpty refuses a flag that is given without a value, as a script does
// whose variable is not set: it must not mean the same as a flag that is left
// out. A setting may be empty, and so may a name.
func notEmpty(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		_, setting := flag.Annotations[settingFlag]
		if err == nil && !setting && flag.Name != "name" && flag.Value.Type() == "string" && flag.Value.String() == "" {
			err = usageError{fmt.Errorf("--%s is empty", flag.Name)}
		}
	})
	return err
}

// askedForJSON reports whether errors are wanted as JSON. Where a flag was not
// understood, those after it were not read.
func askedForJSON(cmd *cobra.Command, args []string) bool {
	if jsonWanted(cmd) {
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
