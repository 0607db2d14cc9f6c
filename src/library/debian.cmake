# What Debian asks of a package beyond what is installed (run by cpack before it packs): packed manual pages, a changelog in
# Debian's form, a file that says under what terms it comes, and a bill of materials (SPDX).
set(share "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share")
set(doc "${share}/doc/${CPACK_PACKAGE_NAME}")
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # SOURCE_DATE_EPOCH, where it is set
file(WRITE "${doc}/changelog" "${CPACK_PACKAGE_NAME} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * What has changed is in CHANGELOG.md.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
file(WRITE "${doc}/copyright" "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: slackline

Files: *
Copyright: the slackline authors
License: Apache-2.0

License: Apache-2.0
 Licensed under the Apache License, Version 2.0 (the \"License\"); you may not
 use this software except in compliance with the License.
 .
 Unless required by applicable law or agreed to in writing, software
 distributed under the License is distributed on an \"AS IS\" BASIS, WITHOUT
 WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
 License for the specific language governing permissions and limitations
 under the License.
 .
 On Debian systems, the full text of the Apache License, Version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
")
file(REMOVE "${doc}/LICENSE") # the system has it
file(GLOB binaries "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/bin/slackline*" "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/lib/*.so"
     "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/lib/*/*.so")
execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/../../tools/sbom ${CPACK_PACKAGE_VERSION} depends ${binaries}
                OUTPUT_FILE "${doc}/slackline.spdx.json" COMMAND_ERROR_IS_FATAL ANY)
file(GLOB pages "${share}/man/man1/*.1")
execute_process(COMMAND gzip -9nf ${pages} "${doc}/changelog" COMMAND_ERROR_IS_FATAL ANY)
