/* SPDX-License-Identifier: Apache-2.0 */
#include "src/watch/trail.h"

#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "src/base/allocator.h"

/* As many as the kernel follows. */
#define MAX_LINKS 40

/* Of a directory: which names it has, and whether it may be searched; of the last one, also when
 * a file was written that was not there to be watched. A directory may be the last of one path and
 * not of another. */
#define DIRECTORY_EVENTS                                                              \
  (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF | \
   IN_MOVE_SELF | IN_EXCL_UNLINK | IN_ONLYDIR | IN_DONT_FOLLOW | IN_MASK_ADD)

/* Of the file: what it holds, also when it is written by another name, and whether it may be
 * read. */
#define FILE_EVENTS \
  (IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_DONT_FOLLOW)

struct weir__trail_step {
  struct weir__trail_step *next;
  int watch;
  bool is_file;
  char name[]; /* of the directory's entry that the path leads through */
};

/* A walk along a path. */
struct walk {
  struct weir__trail *trail;
  int inotify_fd;
  unsigned n_links;
  size_t n_resolved;       /* of `resolved` */
  char resolved[PATH_MAX]; /* where it is, without links; "" = the root */
  char rest[PATH_MAX];     /* the way that is left */
  char name[NAME_MAX + 1]; /* its next part */
  char entry[PATH_MAX];    /* `resolved` and `name` */
  char target[PATH_MAX];   /* of a link */
};

static bool add_step(struct weir__trail *trail, int watch, bool is_file, const char *name) {
  const size_t size = strlen(name) + 1;
  struct weir__trail_step *step = weir__zalloc(trail->allocator, sizeof *step + size);
  if (step == NULL) {
    trail->blind = "there is no memory for its watches";
    return false;
  }
  step->watch = watch;
  step->is_file = is_file;
  memcpy(step->name, name, size);
  step->next = trail->steps;
  trail->steps = step;
  return true;
}

/* What inotify does not tell of: the changes that others make to a file system of the network, and
 * those of a kernel's own files. */
static bool is_remote(const char *directory) {
  struct statfs status;
  if (statfs(directory, &status) != 0) {
    return false;
  }
  switch ((unsigned long)status.f_type & 0xffffffffUL) {
  case NFS_SUPER_MAGIC:
  case SMB_SUPER_MAGIC:
  case CIFS_SUPER_MAGIC:
  case SMB2_SUPER_MAGIC:
  case NCP_SUPER_MAGIC:
  case CODA_SUPER_MAGIC:
  case AFS_SUPER_MAGIC:
  case AFS_FS_MAGIC:
  case CEPH_SUPER_MAGIC:
  case OCFS2_SUPER_MAGIC:
  case FUSE_SUPER_MAGIC:
  case V9FS_MAGIC:
  case HOSTFS_SUPER_MAGIC:
  case PROC_SUPER_MAGIC:
  case SYSFS_MAGIC:
    return true;
  }
  return false;
}

/* A file of an overlay may become another one when it is written, and be watched no more. */
static bool is_overlay(const char *directory) {
  struct statfs status;
  return statfs(directory, &status) == 0 &&
         ((unsigned long)status.f_type & 0xffffffffUL) == OVERLAYFS_SUPER_MAGIC;
}

static const char *blind_because(int number) {
  switch (number) {
  case ENOSPC:
    return "the system has no inotify watches left (fs.inotify.max_user_watches)";
  case EACCES:
    return "a directory on its way may not be read";
  case ENOMEM:
    return "there is no memory for its watches";
  }
  return "a directory on its way can't be watched";
}

static bool has_more(const struct walk *walk) {
  return walk->rest[strspn(walk->rest, "/")] != '\0';
}

/* Watches the directory that the walk is in. Where it has just gone, that is told by what was
 * watched before. */
static void watch_directory(struct walk *walk) {
  const char *directory = walk->n_resolved > 0 ? walk->resolved : "/";
  const int watch =
      inotify_add_watch(walk->inotify_fd, directory,
                        has_more(walk) ? DIRECTORY_EVENTS : DIRECTORY_EVENTS | IN_CLOSE_WRITE);
  if (watch >= 0) {
    (void)add_step(walk->trail, watch, false, walk->name);
    if (is_remote(directory)) {
      walk->trail->blind = "it is on a file system that does not tell of all changes";
    }
  } else if (errno != ENOENT && errno != ENOTDIR) {
    walk->trail->blind = blind_because(errno);
  }
}

static void watch_file(struct walk *walk) {
  const int watch = inotify_add_watch(walk->inotify_fd, walk->entry, FILE_EVENTS);
  if (watch >= 0) {
    (void)add_step(walk->trail, watch, true, "");
  } else if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) {
    /* that a file may be read again, its directory tells */
    walk->trail->blind = blind_because(errno);
  }
  if (is_overlay(walk->n_resolved > 0 ? walk->resolved : "/")) {
    walk->trail->blind = "it is on an overlay, which does not tell of all changes";
  }
}

/* Cuts the next part off what is left; false: nothing is left, or it can't be a name. */
static bool next_name(struct walk *walk) {
  const size_t slashes = strspn(walk->rest, "/");
  const size_t size = strcspn(walk->rest + slashes, "/");
  if (size == 0 || size > NAME_MAX) {
    return false;
  }
  memcpy(walk->name, walk->rest + slashes, size);
  walk->name[size] = '\0';
  const char *behind = walk->rest + slashes + size;
  memmove(walk->rest, behind, strlen(behind) + 1);
  return true;
}

/* Back to the directory above, which is the one that a name led here from. */
static void leave_directory(struct walk *walk) {
  while (walk->n_resolved > 0 && walk->resolved[--walk->n_resolved] != '/') {
  }
  walk->resolved[walk->n_resolved] = '\0';
}

static bool name_entry(struct walk *walk) {
  const size_t size = strlen(walk->name);
  if (walk->n_resolved + size + 2 > sizeof walk->entry) {
    return false;
  }
  memcpy(walk->entry, walk->resolved, walk->n_resolved);
  walk->entry[walk->n_resolved] = '/';
  memcpy(walk->entry + walk->n_resolved + 1, walk->name, size + 1);
  return true;
}

/* A link's target takes the place of its name. */
static bool follow_link(struct walk *walk) {
  const ssize_t size = readlink(walk->entry, walk->target, sizeof walk->target);
  const size_t n_rest = strlen(walk->rest);
  if (size <= 0 || ++walk->n_links > MAX_LINKS || (size_t)size + n_rest + 1 > sizeof walk->rest) {
    return false;
  }
  if (walk->target[0] == '/') {
    walk->n_resolved = 0;
    walk->resolved[0] = '\0';
  }
  memmove(walk->rest + size, walk->rest, n_rest + 1);
  memcpy(walk->rest, walk->target, (size_t)size);
  return true;
}

static void enter_directory(struct walk *walk) {
  walk->n_resolved = strlen(walk->entry);
  memcpy(walk->resolved, walk->entry, walk->n_resolved + 1);
}

/* One part of the way; false: this is as far as it leads. */
static bool walk_on(struct walk *walk) {
  struct stat status;
  if (!next_name(walk)) {
    return false;
  }
  if (strcmp(walk->name, ".") == 0) {
    return true;
  }
  if (strcmp(walk->name, "..") == 0) {
    leave_directory(walk);
    return true;
  }
  watch_directory(walk);
  if (!name_entry(walk) || lstat(walk->entry, &status) != 0) {
    return false;
  }
  if (S_ISLNK(status.st_mode)) {
    return follow_link(walk);
  }
  if (S_ISDIR(status.st_mode)) {
    enter_directory(walk);
    return true;
  }
  watch_file(walk);
  return false;
}

void weir__trail_walk(struct weir__trail *trail, int inotify_fd, const char *path,
                      const struct weir_allocator *allocator) {
  struct walk walk;
  const size_t size = strlen(path) + 1;
  *trail = (struct weir__trail){.allocator = allocator, .steps = NULL, .blind = NULL};
  if (size > sizeof walk.rest) {
    return; /* it can't be opened either */
  }
  walk.trail = trail;
  walk.inotify_fd = inotify_fd;
  walk.n_links = 0;
  walk.n_resolved = 0;
  walk.resolved[0] = '\0';
  walk.target[0] = '\0';
  memcpy(walk.rest, path, size);
  while (walk_on(&walk)) {
  }
}

void weir__trail_fini(struct weir__trail *trail) {
  while (trail->steps != NULL) {
    struct weir__trail_step *step = trail->steps;
    trail->steps = step->next;
    weir__free(trail->allocator, step);
  }
}

bool weir__trail_uses(const struct weir__trail *trail, int watch) {
  for (const struct weir__trail_step *step = trail->steps; step != NULL; step = step->next) {
    if (step->watch == watch) {
      return true;
    }
  }
  return false;
}

void weir__trail_leave(const struct weir__trail *trail, int inotify_fd,
                       const struct weir__trail *one, const struct weir__trail *other) {
  for (const struct weir__trail_step *step = trail->steps; step != NULL; step = step->next) {
    if ((one == NULL || !weir__trail_uses(one, step->watch)) &&
        (other == NULL || !weir__trail_uses(other, step->watch))) {
      /* fails where it has ended by itself, with what was watched */
      (void)inotify_rm_watch(inotify_fd, step->watch);
    }
  }
}

static unsigned step_news(const struct weir__trail_step *step, const struct inotify_event *event) {
  const uint32_t what = event->mask & ~(uint32_t)IN_ISDIR;
  if (step->is_file) {
    return what == IN_MODIFY ? WEIR__NEWS_WRITING : WEIR__NEWS_CHANGED;
  }
  /* of the directory itself, or of the name that matters */
  if (event->len > 0 && strcmp(event->name, step->name) != 0) {
    return 0;
  }
  return what == IN_CREATE ? WEIR__NEWS_CREATED : WEIR__NEWS_CHANGED;
}

unsigned weir__trail_news(const struct weir__trail *trail, const struct inotify_event *event) {
  unsigned news = 0;
  for (const struct weir__trail_step *step = trail->steps; step != NULL; step = step->next) {
    if (step->watch == event->wd) {
      news |= step_news(step, event);
    }
  }
  return news;
}
