package config

import "github.com/spf13/cobra"

// Completer returns the texts to which a shell may complete an argument that begins with typed. Each may end with a tab
// and a description. Shells ignore texts that begin differently.
type Completer func(cmd *cobra.Command, typed string) []string

// Once completes the first argument only.
func Once(names Completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(cmd, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// Each completes every argument.
func Each(names Completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return names(cmd, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteFlag completes the value of a flag.
func CompleteFlag(cmd *cobra.Command, flag string, names Completer) {
	if err := cmd.RegisterFlagCompletionFunc(flag, Each(names)); err != nil {
		panic(err) // the flag does not exist, or is registered twice
	}
}

// ContextNames completes the names of contexts.
func ContextNames(*cobra.Command, string) []string {
	all, err := ReadContexts()
	if err != nil {
		return nil
	}
	return all.Names()
}
