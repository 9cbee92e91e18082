/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the check for files that run by themselves share; nobody else needs it.
 *
 *   commit_autorun.c       names: a table of patterns
 *   commit_autorun_git.c   what git takes for a repository, whatever it is called, and what in it may be written
 *   commit_autorun_host.c  files of ordinary names that the host's own git configuration, hooks and links lead to
 *
 * All of it is about the host as it will be after the commit: what it has now and what this commit brings, deletions not counted, so that
 * neither the order of several commits nor a selection of paths makes a difference.
 */
#ifndef CORDON_LAYERS_AUTORUN_PARTS_H
#define CORDON_LAYERS_AUTORUN_PARTS_H

#include "layers/commit_parts.h"

#define AUTORUN_GIT "git runs it, or reads commands from it"

/* ---- patterns: commit_autorun.c ------------------------------------------------------------------------------------------------ */

/* Byte by byte without regard to case; patterns are in lower case. "*": anything within a name, "**": any number of names, also none. */
bool autorun_path_matches(const char *pattern, const char *path);

/* ---- what the host leads to: commit_autorun_host.c ----------------------------------------------------------------------------- */

struct leads {
	char *top;            /* the workspace, as an absolute path */
	struct strlist paths; /* in it; "": all of it */
	size_t files;         /* configuration files read for one repository */
};
/* Begins with what lies above the workspace, and with the user's and the system's configuration. */
int leads_begin(struct leads *l, int dir, struct cordon_error *err);
void leads_end(struct leads *l);
/* A directory of the workspace ("": its top) that has a .git, or that is a repository itself. */
int leads_of_work_tree(struct leads *l, const char *path, size_t len, struct cordon_error *err);
int leads_of_repository(struct leads *l, const char *path, size_t len, struct cordon_error *err);
/* Whether a change of the path, which becomes something of this mode, changes what the host is led to. */
bool leads_to(const struct leads *l, const char *path, mode_t mode);

#endif
