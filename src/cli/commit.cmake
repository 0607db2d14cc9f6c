# cmake -DSOURCE=... -DOUT=... -P commit.cmake: writes the commit of the source tree into a header, when it has changed.
# A tree without a repository of its own (an archive, perhaps below somebody else's repository) has no commit.
set(SL_COMMIT "")
set(SL_COMMIT_DATE "")
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT} -C ${SOURCE} log -1 --format=%h --abbrev=12 OUTPUT_VARIABLE SL_COMMIT ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  execute_process(COMMAND ${GIT} -C ${SOURCE} log -1 --format=%cs OUTPUT_VARIABLE SL_COMMIT_DATE ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  execute_process(COMMAND ${GIT} -C ${SOURCE} status --porcelain --untracked-files=no OUTPUT_VARIABLE changed ERROR_QUIET)
  if(SL_COMMIT AND changed)
    string(APPEND SL_COMMIT "+")
  endif()
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/slackline_commit.h.in ${OUT} @ONLY)
