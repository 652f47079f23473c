// SPDX-License-Identifier: Apache-2.0

// Package cli contains the code that all commands of the program tenantry share. It prints results
// and errors, chooses exit codes, and checks arguments.
//
//   - output.go prints an object (Show) or a list (List), as a table or as JSON.
//   - errors.go has the kinds of errors, their exit codes and the fixes that operators read.
//   - arguments.go checks arguments and reads secrets.
//   - input.go asks for a confirmation, and reads standard input until Ctrl-C.
//   - help.go sets the format of --help.
//   - completion.go sets the values that shells complete, and has the command `completion`.
//   - version.go has the version of the program. doc.go has only this comment.
//
// The other commands are in the packages command, operator, doctor and backup.
package cli
